/* ARC: multiple-choice science questions; arc_easy and arc_challenge (version 1.0) of lm-evaluation-harness. */
#include <stdlib.h>

#include "datasets/records.h"
#include "evals/suite_type.h"

static const char *const metrics[] = {"acc,none", "acc_norm,none"};

static int append_question(const struct json *doc, struct buf *out, struct error *e)
{
	struct str question;
	TRY(column_string(doc, "question", &question, e));
	buf_append_text(out, "Question: ");
	buf_append_str(out, question);
	buf_append_text(out, "\nAnswer:");
	return buf_check(out, e);
}

/* Place of the first label that equals the key. */
static int find_gold(const struct json *labels, struct str key, int *gold, struct error *e)
{
	int i = 0;
	JSON_EACH (label, labels) {
		if (json_is(label, JSON_STRING) && str_equal(label->text, key)) {
			*gold = i;
			return 0;
		}
		i++;
	}
	return error_set(e, ERR_INPUT, "column \"answerKey\" is \"%.*s\", expected one of the labels in \"choices\"",
		STR_ARG(key));
}

static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	const struct json *choices, *texts, *labels;
	struct str key;
	TRY(column_node(doc, "choices", JSON_OBJECT, &choices, e));
	if (column_node(choices, "text", JSON_ARRAY, &texts, e) < 0 ||
		column_node(choices, "label", JSON_ARRAY, &labels, e) < 0)
		return error_prefix(e, "column \"choices\"");
	TRY(column_string(doc, "answerKey", &key, e));
	if (texts->count != labels->count || texts->count == 0 || texts->count > SUITE_MAX_CHOICES)
		return error_set(e, ERR_INPUT,
			"column \"choices\" holds %zu texts and %zu labels, expected the same number, 1 to %d",
			texts->count, labels->count, SUITE_MAX_CHOICES);
	TRY(find_gold(labels, key, &out->gold, e));
	out->choices = mem_calloc(texts->count, sizeof(*out->choices), e);
	if (!out->choices)
		return ERR_MEMORY;
	JSON_EACH (text, texts) {
		if (!json_is(text, JSON_STRING))
			return error_set(e, ERR_INPUT, "column \"choices\": text %d is %s, expected string",
				out->n_choices, json_type_name(text));
		out->choices[out->n_choices++] = text->text;
	}
	return 0;
}

static int append_answer(const struct json *doc, struct buf *out, struct error *e)
{
	struct doc_content content = {0};
	int status = read_content(doc, &content, e);
	if (status == 0)
		buf_append_str(out, content.choices[content.gold]);
	doc_content_free(&content);
	return status < 0 ? status : buf_check(out, e);
}

const struct suite_type suite_type_arc_easy = {
	.name = "arc_easy",
	.definition = "science questions, 0 shots; the likeliest of 3 to 5 answers",
	.version = 1.0,
	.test_file = "arc/ARC-Easy/test.jsonl",
	.shots_file = "arc/ARC-Easy/train.jsonl",
	.kind = REQUEST_LOGLIKELIHOOD,
	.metrics = metrics,
	.n_metrics = 2,
	.append_question = append_question,
	.append_answer = append_answer,
	.read_content = read_content,
};

const struct suite_type suite_type_arc_challenge = {
	.name = "arc_challenge",
	.definition = "harder science questions, 0 shots; the likeliest of 3 to 5 answers",
	.version = 1.0,
	.test_file = "arc/ARC-Challenge/test.jsonl",
	.shots_file = "arc/ARC-Challenge/train.jsonl",
	.kind = REQUEST_LOGLIKELIHOOD,
	.metrics = metrics,
	.n_metrics = 2,
	.append_question = append_question,
	.append_answer = append_answer,
	.read_content = read_content,
};
