/* GSM8K with chain of thought: the eight solved examples of Wei et al. (2022), in "The answer is N." form; gsm8k_cot
 * (version 3.0) of lm-evaluation-harness. */
#include "datasets/records.h"
#include "engine/base/utf8.h"
#include "evals/suite_type.h"

static const char *const metrics[] = {"exact_match,strict-match", "exact_match,flexible-extract"};
static const char *const filters[] = {"gsm8k_cot:strict-match", "gsm8k_cot:flexible-extract"};

static const struct str until[] = {{"Q:", 2}, {"</s>", 4}, {"<|im_end|>", 10}};

/* clang-format off */
static const char *const shots[] = {
	"Q: There are 15 trees in the grove. Grove workers will plant trees in the grove today. After "
	"they are done, there will be 21 trees. How many trees did the grove workers plant today?\n"
	"A: There are 15 trees originally. Then there were 21 trees after some more were planted. So "
	"there must have been 21 - 15 = 6. The answer is 6.",
	"Q: If there are 3 cars in the parking lot and 2 more cars arrive, how many cars are in the "
	"parking lot?\n"
	"A: There are originally 3 cars. 2 more cars arrive. 3 + 2 = 5. The answer is 5.",
	"Q: Leah had 32 chocolates and her sister had 42. If they ate 35, how many pieces do they have "
	"left in total?\n"
	"A: Originally, Leah had 32 chocolates. Her sister had 42. So in total they had 32 + 42 = 74. "
	"After eating 35, they had 74 - 35 = 39. The answer is 39.",
	"Q: Jason had 20 lollipops. He gave Denny some lollipops. Now Jason has 12 lollipops. How many "
	"lollipops did Jason give to Denny?\n"
	"A: Jason started with 20 lollipops. Then he had 12 after giving some to Denny. So he gave "
	"Denny 20 - 12 = 8. The answer is 8.",
	"Q: Shawn has five toys. For Christmas, he got two toys each from his mom and dad. How many "
	"toys does he have now?\n"
	"A: Shawn started with 5 toys. If he got 2 toys each from his mom and dad, then that is 4 more "
	"toys. 5 + 4 = 9. The answer is 9.",
	"Q: There were nine computers in the server room. Five more computers were installed each day, "
	"from monday to thursday. How many computers are now in the server room?\n"
	"A: There were originally 9 computers. For each of 4 days, 5 more computers were added. So 5 * "
	"4 = 20 computers were added. 9 + 20 is 29. The answer is 29.",
	"Q: Michael had 58 golf balls. On tuesday, he lost 23 golf balls. On wednesday, he lost 2 more. "
	"How many golf balls did he have at the end of wednesday?\n"
	"A: Michael started with 58 golf balls. After losing 23 on tuesday, he had 58 - 23 = 35. After "
	"losing 2 more, he had 35 - 2 = 33 golf balls. The answer is 33.",
	"Q: Olivia has $23. She bought five bagels for $3 each. How much money does she have left?\n"
	"A: Olivia had 23 dollars. 5 bagels for 3 dollars each will be 5 x 3 = 15 dollars. So she has "
	"23 - 15 dollars left. 23 - 15 is 8. The answer is 8.",
};
/* clang-format on */

static int append_question(const struct json *doc, struct buf *out, struct error *e)
{
	struct str question;
	TRY(column_string(doc, "question", &question, e));
	buf_append_text(out, "Q: ");
	buf_append_str(out, question);
	buf_append_text(out, "\nA:");
	return buf_check(out, e);
}

/* answer.split("####")[-1].strip() */
static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	struct str answer;
	TRY(column_string(doc, "answer", &answer, e));
	size_t start = 0, mark;
	while ((mark = str_find(answer, str_of("####"), start)) != (size_t)-1)
		start = mark + 4;
	out->target = utf8_strip((struct str){answer.data + start, answer.length - start});
	return 0;
}

const struct suite_type suite_type_gsm8k_cot = {
	.name = "gsm8k_cot",
	.definition = "grade-school word problems, 8 fixed shots that reason aloud; exact match of the number",
	.version = 3.0,
	.test_file = "gsm8k/test.jsonl",
	.fewshot = 8,
	.shots = SHOTS_FIRST,
	.fixed_shots = shots,
	.n_fixed_shots = sizeof(shots) / sizeof(shots[0]),
	.question_end = "\nA:",
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 2,
	.until = until,
	.n_until = 3,
	.max_tokens = 256,
	.filters = filters,
	.exact_match = "gsm8k_cot",
	.append_question = append_question,
	.read_content = read_content,
};
