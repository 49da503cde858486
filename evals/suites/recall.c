/* Recall: repeat a code given earlier in the context, behind growing filler. What the KV cache loses shows here first.
 * */
#include "datasets/records.h"
#include "evals/suite_type.h"

static const char *const metrics[] = {"exact_match,none"};
static const char *const filters[] = {"recall:none"};

static const struct str until[] = {{"\n", 1}};

static int append_question(const struct json *doc, struct buf *out, struct error *e)
{
	struct str context, question;
	TRY(column_string(doc, "context", &context, e));
	TRY(column_string(doc, "question", &question, e));
	buf_append_str(out, context);
	buf_append_text(out, "\n\nQuestion: ");
	buf_append_str(out, question);
	buf_append_text(out, "\nAnswer:");
	return buf_check(out, e);
}

static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	const struct json *filler;
	TRY(column_string(doc, "answer", &out->answer, e));
	TRY(column_node(doc, "filler", JSON_NUMBER, &filler, e));
	out->group = filler->text;
	return 0;
}

const struct suite_type suite_type_recall = {
	.name = "recall",
	.test_file = "recall/test.jsonl",
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 1,
	.group_column = "filler",
	.until = until,
	.n_until = 1,
	.max_tokens = 12,
	.filters = filters,
	.exact_match = "recall",
	.append_question = append_question,
	.read_content = read_content,
};
