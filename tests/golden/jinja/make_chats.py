#!/usr/bin/env python3
"""Writes chats.jsonl (templates of our own and what apply_chat_template makes of conversations) and case.jsonl (Python's
str methods that change case) beside this file.

python3 make_chats.py   (needs transformers, jinja2, tokenizers; their versions go to the first line)
"""
import json
import os
import sys

import jinja2
import transformers
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

TEMPLATES = {
    "turns": "{{ bos_token }}{% for m in messages %}\n[{{ m.role }}] {{ m.content | trim }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}\n[assistant] {% endif %}\n",
    "nulls": "{% for m in messages %}{{ m.keys()|list }}{{ m.content is defined }}{{ m.tool_calls is defined }};{% endfor %}",
    "thoughts": "{% for m in messages %}{{ m.role }}:{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.reasoning }};{% endfor %}",
    "tools": "{% if tools %}Tools:\n{% for t in tools %}\n- {{ t | tojson }}\n{% endfor %}\n{%- else %}none {{ tools }}{% endif %}\n"
    "{% for m in messages %}\n{%- if m.tool_calls %}\n{%- for c in m.tool_calls %}\n<{{ c.function.name }}>"
    "{%- for k, v in c.function.arguments.items() %}{{ k }}={{ v if v is string else v | tojson }} {% endfor %}\n"
    "{%- endfor %}\n{%- else %}{{ m.role }}: {{ m.content }}\n{% endif %}\n{%- endfor %}",
    "strict": "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system turns') }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns must alternate') }}{% endif %}"
    "<{{ m.content }}>{% endfor %}",
    "parts": "{% macro text(c) %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{{ p.text if p.type == 'text' else '(' ~ p.type ~ ')' }}"
    "{% endfor %}{% endif %}{% endmacro %}{% for m in messages %}{{ m.role }}={{ text(m.content) }};{% endfor %}",
    "last": "{% set ns = namespace(i=-1) %}{% for m in messages[::-1] %}{% if m.role == 'user' and ns.i < 0 %}"
    "{% set ns.i = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}{{ ns.i }}"
    "{% for m in messages %}{% if loop.index0 > ns.i and '</t>' in m.content %}{{ m.content.split('</t>')[-1].lstrip('\\n') }}{% endif %}{% endfor %}",
    "mode": "{{ 'deep' if deep is defined and deep else 'plain' }}{{ documents is none }}{{ add_generation_prompt }}",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}\n  {{ m.content }}\n  {% endgeneration %}\n{% else %}{{ m.content }}\n{% endif %}{% endfor %}",
}

HELLO = [{"role": "user", "content": " Hello "}]
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "One \u00e9 \U0001f600?"},
    {"role": "assistant", "content": "<t>hm</t>\n\nTwo"},
    {"role": "user", "content": "Three & <four>"},
]
CALLS = [
    {"role": "user", "content": "Is it raining in Bern?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"function": {"name": "rain", "arguments": {"town": "Bern", "days": [1, 2.0], "deep": {"a": None, "b": True}}}}
        ],
    },
    {"role": "tool", "content": "no", "name": None},
]
THOUGHTS = [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": "a", "thinking": "t1"},
    {"role": "assistant", "content": "a", "reasoning": "t2"},
    {"role": "assistant", "content": "a", "reasoning_content": "t3", "thinking": "t4"},
    {"role": "assistant", "content": "a", "reasoning_content": None, "reasoning": "t5"},
]
PARTS = [{"role": "user", "content": [{"type": "text", "text": "see "}, {"type": "image", "url": "x"}, {"type": "text", "text": "!"}]}]
ANSWERED = TALK[1:3] + [{"role": "assistant", "content": "x</t>\n\nlast"}]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "rain", "description": "Rain, \u201cnow\u201d", "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}},
    }
]

CHATS = [
    ("turns", HELLO, {}),
    ("turns", HELLO, {"add_generation_prompt": True}),
    ("turns", TALK, {"add_generation_prompt": True}),
    ("nulls", CALLS, {}),
    ("thoughts", THOUGHTS, {}),
    ("tools", CALLS, {"tools": TOOLS}),
    ("tools", HELLO, {}),
    ("tools", HELLO, {"tools": []}),
    ("strict", HELLO, {}),
    ("strict", TALK, {}),
    ("strict", HELLO + HELLO, {}),
    ("parts", PARTS + HELLO, {}),
    ("last", TALK, {}),
    ("last", ANSWERED, {}),
    ("mode", HELLO, {"deep": True}),
    ("mode", HELLO, {"deep": False, "add_generation_prompt": True}),
    ("mode", [], {}),
    ("generation", TALK, {}),
]

LETTERS = [
    "",
    "hello World",
    "\u00df\u00dfa \ufb01sh \u0149 \u01f0",
    "\u01c6 \u01c5 \u01c4 \u01c9a",
    "\u0391\u03a3 \u0391\u03a3\u0391 \u03a3 a\u03a3. \u03a3'\u03a3",
    "\u0130I \u0131i",
    "they're bill's x-ray (abc) 3d",
    "\u1f80\u1f88 \u1fb3 \u1fbc \u1fb7",
    "\u0587 \ufb13",
    "\u00aa\u00ba\u2170\u2160 \u24d0\u24b6",
    "\u1e9e\u1e96",
    "\u65e5\u672c a\u0301B",
    "\U00010400\U00010428",
]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>")
    with open(os.path.join(here, "chats.jsonl"), "w", encoding="utf-8") as out:
        out.write(json.dumps({"made_by": "transformers %s, jinja2 %s" % (transformers.__version__, jinja2.__version__)}) + "\n")
        for name, messages, options in CHATS:
            chat = {"name": name, "template": TEMPLATES[name], "messages": messages, **options}
            try:
                chat["text"] = tokenizer.apply_chat_template(messages, chat_template=TEMPLATES[name], tokenize=False, **options)
            except Exception as e:
                chat["why"] = type(e).__name__ + ": " + str(e)
            out.write(json.dumps(chat) + "\n")
    with open(os.path.join(here, "case.jsonl"), "w", encoding="utf-8") as out:
        out.write(json.dumps({"made_by": "CPython " + sys.version.split()[0]}) + "\n")
        for s in LETTERS:
            case = {"input": s, "upper": s.upper(), "lower": s.lower(), "title": s.title(), "capitalize": s.capitalize(), "swapcase": s.swapcase()}
            case.update(isupper=s.isupper(), islower=s.islower(), istitle=s.istitle())
            out.write(json.dumps(case) + "\n")


main()
