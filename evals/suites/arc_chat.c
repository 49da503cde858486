/* ARC's challenge set as a conversation: the answer is generated and begins with words that are given; arc_challenge_chat
 * (version 1.0) of lm-evaluation-harness, whose task file writes each line feed as a backslash and an n. */
#include "datasets/records.h"
#include "engine/base/utf8.h"
#include "evals/suite_type.h"

static const char *const metrics[] = {"exact_match,remove_whitespace"};
static const char *const filters[] = {"arc_challenge_chat:remove_whitespace"};

static const struct str until[] = {{"\n\n", 2}, {".", 1}};

enum { FEWEST_CHOICES = 3, MOST_CHOICES = 4 };

static int append_question(const struct json *doc, struct buf *out, struct error *e)
{
	const struct json *choices, *texts;
	struct str question;
	int i = 0;
	TRY(column_string(doc, "question", &question, e));
	TRY(column_node(doc, "choices", JSON_OBJECT, &choices, e));
	if (column_node(choices, "text", JSON_ARRAY, &texts, e) < 0)
		return error_prefix(e, "column \"choices\"");
	if (texts->count < FEWEST_CHOICES)
		return error_set(e, ERR_INPUT, "column \"choices\" holds %zu texts, expected %d or more", texts->count,
			FEWEST_CHOICES);
	buf_append_text(out,
		"Given the following question and four candidate answers (A, B, C and D), choose the best "
		"answer.\\nQuestion: ");
	buf_append_str(out, utf8_strip(question));
	JSON_EACH (text, texts) {
		if (i == MOST_CHOICES)
			break;
		if (!json_is(text, JSON_STRING))
			return error_set(e, ERR_INPUT, "column \"choices\": text %d is %s, expected string", i,
				json_type_name(text));
		buf_printf(out, "\\n%c. ", 'A' + i++);
		buf_append_str(out, text->text);
	}
	buf_append_text(out,
		"\\nYour response should end with \"The best answer is [the_answer_letter]\" where the "
		"[the_answer_letter] is one of A, B, C or D.");
	return buf_check(out, e);
}

/* A key that is a number is the letter of that place. */
static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	static const char letters[] = "ABCD";
	struct str key;
	TRY(column_string(doc, "answerKey", &key, e));
	bool digit = key.length == 1 && key.data[0] >= '1' && key.data[0] <= '4';
	out->target = digit ? (struct str){letters + (key.data[0] - '1'), 1} : key;
	return 0;
}

const struct suite_type suite_type_arc_challenge_chat = {
	.name = "arc_challenge_chat",
	.definition = "ARC's challenge set with a generated answer; exact match of the letter",
	.test_file = "arc/ARC-Challenge/test.jsonl",
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 1,
	.until = until,
	.n_until = 2,
	.max_tokens = 100,
	.filters = filters,
	.exact_match = "arc_challenge_chat",
	.answer_begin = "The best answer is",
	.append_question = append_question,
	.read_content = read_content,
};
