/* GSM8K: grade-school word problems, answered step by step; gsm8k (version 3.0) of lm-evaluation-harness. */
#include "datasets/records.h"
#include "evals/suite_type.h"

static const char *const metrics[] = {"exact_match,strict-match", "exact_match,flexible-extract"};
static const char *const filters[] = {"gsm8k:strict-match", "gsm8k:flexible-extract"};

static const struct str until[] = {{"Question:", 9}, {"</s>", 4}, {"<|im_end|>", 10}};

static int append_question(const struct json *doc, struct buf *out, struct error *e)
{
	struct str question;
	TRY(column_string(doc, "question", &question, e));
	buf_append_text(out, "Question: ");
	buf_append_str(out, question);
	buf_append_text(out, "\nAnswer:");
	return buf_check(out, e);
}

static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	return column_string(doc, "answer", &out->target, e);
}

static int append_answer(const struct json *doc, struct buf *out, struct error *e)
{
	struct str answer;
	TRY(column_string(doc, "answer", &answer, e));
	buf_append_str(out, answer);
	return buf_check(out, e);
}

const struct suite_type suite_type_gsm8k = {
	.name = "gsm8k",
	.definition = "grade-school word problems, 5 shots; exact match of the number behind ####",
	.version = 3.0,
	.test_file = "gsm8k/test.jsonl",
	.shots_file = "gsm8k/train.jsonl",
	.fewshot = 5,
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 2,
	.until = until,
	.n_until = 3,
	.max_tokens = 256,
	.filters = filters,
	.exact_match = "gsm8k",
	.append_question = append_question,
	.append_answer = append_answer,
	.read_content = read_content,
};
