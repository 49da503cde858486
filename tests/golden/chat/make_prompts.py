#!/usr/bin/env python3
"""Writes prompts.jsonl beside this file: the prompts of a few records of ../suites/data as conversations, their messages
put together as lm-evaluation-harness 4e7e0d47 does (fewshot_context, build_qa_turn, multiturn_to_singleturn), written by
transformers' apply_chat_template.

python3 make_prompts.py   (needs transformers, jinja2, tokenizers; their versions go to the first line)
"""
import json
import os
import random

import jinja2
import transformers
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "suites", "data")

PLAIN = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
# refuses system turns, trims, ends without a line feed
STRICT = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system turns') }}{% endif %}"
    "({{ m.role }}) {{ m.content | trim }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}(assistant){% endif %}"
)


def records(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def gsm8k(doc):
    return "Question: " + doc["question"] + "\nAnswer:", doc["answer"]


def arc(doc):
    gold = doc["choices"]["label"].index(doc["answerKey"])
    return "Question: " + doc["question"] + "\nAnswer:", doc["choices"]["text"][gold]


def arc_chat(doc):
    text = "Given the following question and four candidate answers (A, B, C and D), choose the best answer.\\nQuestion: "
    text += doc["question"].strip()
    for letter, choice in zip("ABCD", doc["choices"]["text"]):
        text += "\\n" + letter + ". " + choice
    text += '\\nYour response should end with "The best answer is [the_answer_letter]" where the [the_answer_letter] is one of A, B, C or D.'
    return text, None


SUITES = {
    "gsm8k": (gsm8k, "gsm8k/test.jsonl", "gsm8k/train.jsonl", None),
    "arc_easy": (arc, "arc/ARC-Easy/test.jsonl", "arc/ARC-Easy/train.jsonl", None),
    "arc_challenge_chat": (arc_chat, "arc/ARC-Challenge/test.jsonl", None, "The best answer is"),
}

CASES = [
    # suite, shots, multiturn, system instruction, template
    ("gsm8k", 0, True, None, PLAIN),
    ("gsm8k", 2, True, None, PLAIN),
    ("gsm8k", 2, False, None, PLAIN),
    ("gsm8k", 2, True, "Think \u201ctwice\u201d.", PLAIN),
    ("gsm8k", 3, False, "Think twice.\n", PLAIN),
    ("gsm8k", 1, True, "Think twice.", STRICT),
    ("arc_easy", 0, True, None, PLAIN),
    ("arc_easy", 3, True, None, STRICT),
    ("arc_easy", 3, False, "Choose.", PLAIN),
    ("arc_challenge_chat", 0, True, None, PLAIN),
    ("arc_challenge_chat", 0, False, "Choose.", PLAIN),
    ("arc_challenge_chat", 0, True, "Choose.", STRICT),
]


def write(tokenizer, template, messages, open_ended):
    def apply(kept):
        return tokenizer.apply_chat_template(
            kept, chat_template=template, tokenize=False, add_generation_prompt=not open_ended, continue_final_message=open_ended
        )

    try:
        return apply(messages), False
    except jinja2.exceptions.TemplateError:
        return apply([m for m in messages if m["role"] != "system"]), True


def prompts(tokenizer, suite, shots, multiturn, system, template):
    parts, test, train, prefix = SUITES[suite]
    generator = random.Random(1234)
    pool = records(train) if train else []
    for doc_id, doc in enumerate(records(test)):
        chosen = generator.sample(pool, shots) if shots else []
        turns = []
        for question, answer in map(parts, chosen):
            turns += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        question = parts(doc)[0]
        if not multiturn:
            question = "".join(q + " " + a + "\n\n" for q, a in map(parts, chosen)) + question
            turns = []
        messages = [{"role": "system", "content": system}] if system else []
        messages += turns + [{"role": "user", "content": question}]
        if prefix:
            messages.append({"role": "assistant", "content": prefix})
        text, dropped = write(tokenizer, template, messages, prefix is not None)
        yield {"doc_id": doc_id, "prompt": text, "dropped": dropped}


def main():
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>")
    with open(os.path.join(HERE, "prompts.jsonl"), "w", encoding="utf-8") as out:
        out.write(json.dumps({"made_by": "transformers %s, jinja2 %s" % (transformers.__version__, jinja2.__version__)}) + "\n")
        for suite, shots, multiturn, system, template in CASES:
            case = {"suite": suite, "fewshot": shots, "multiturn": multiturn, "system": system, "template": template}
            case["items"] = list(prompts(tokenizer, suite, shots, multiturn, system, template))
            out.write(json.dumps(case) + "\n")


main()
