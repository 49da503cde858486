/* Recall: repeat a code given earlier in the context, behind growing filler. What the KV cache loses shows here first.
 * `recall` reads its records from a file, `recall:N` makes them for the model at hand, up to N tokens long. */
#include <inttypes.h>
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/rng.h"
#include "engine/engine.h"
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

static int read_record(const struct json *doc, const char *column, struct doc_content *out, struct error *e)
{
	const struct json *distance;
	TRY(column_string(doc, "answer", &out->target, e));
	TRY(column_node(doc, column, JSON_NUMBER, &distance, e));
	out->group = distance->text;
	return 0;
}

static int read_content(const struct json *doc, struct doc_content *out, struct error *e)
{
	return read_record(doc, "filler", out, e);
}

static int read_made(const struct json *doc, struct doc_content *out, struct error *e)
{
	return read_record(doc, "tokens", out, e);
}

/* ---- Records made for a model ---- */

enum {
	MAX_ANSWER = 12, /* tokens */
	CONTEXTS = 4,    /* of each length */
	PEOPLE = 5,      /* told of in each; one question is solved, each other one is a record */
	SHORTEST = 128,  /* lengths are N, N / 2, N / 4 ... down to this */
	LARGEST = 1 << 24,
};

static const char *const names[] = {"Ida", "Dan", "Mia", "Leo", "Sam", "Ann", "Max", "Eva", "Ben", "Kim", "Tom", "Zoe"};
static const char *const firsts[] = {"glass", "rubber", "paper", "metal", "cotton", "wax", "clay", "wood", "wool",
	"iron", "gold", "plastic", "leather"};
static const char *const seconds[] = {"dog", "cat", "cow", "sheep", "horse", "pig", "duck", "lion", "wolf", "bee",
	"snake", "frog", "owl", "mouse", "goose", "bear"};

/* Sentences that only take up room: a question and its answer. */
static const char *const fillers[][2] = {{"What is the capital of France?", "Paris."},
	{"What is the capital of Italy?", "Rome."}, {"What is the capital of Spain?", "Madrid."},
	{"What is the capital of Japan?", "Tokyo."}, {"What is the capital of Egypt?", "Cairo."},
	{"What is the capital of Greece?", "Athens."}, {"What is the capital of Peru?", "Lima."},
	{"What is the capital of Cuba?", "Havana."}, {"What is the capital of Kenya?", "Nairobi."},
	{"What is the capital of Norway?", "Oslo."}, {"On which continent is Chile?", "South America."},
	{"On which continent is Iraq?", "Asia."}, {"On which continent is Ghana?", "Africa."},
	{"On which continent is Sweden?", "Europe."}, {"Which month comes right after January?", "February."},
	{"Which month comes right after March?", "April."}, {"Which month comes right after June?", "July."},
	{"Which month comes right after October?", "November."}, {"What is the opposite of near?", "Far."},
	{"What is the opposite of wet?", "Dry."}, {"What is the opposite of hot?", "Cold."},
	{"What is the opposite of rich?", "Poor."}, {"Which sound does a duck make?", "Quack."},
	{"Which sound does a dog make?", "Bark."}, {"Which organ do people use to see?", "The eyes."},
	{"Which tool belongs to a cook?", "A knife."}};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

struct maker {
	const struct engine_text *text;
	struct py_random random;
	struct buf *out;
	size_t filler_tokens[LENGTH(fillers)]; /* of each sentence with the space before it */
	uint32_t people[PEOPLE], first[PEOPLE], second[PEOPLE];
	struct buf context; /* codes and filler */
	int n_filler;
};

static int draw(struct maker *m, size_t n, uint32_t out[PEOPLE], struct error *e)
{
	return py_random_sample(&m->random, (uint32_t)n, PEOPLE, out) < 0
		? error_set(e, ERR_MEMORY, "out of memory for a recall record")
		: 0;
}

static void append_code(const struct maker *m, int person, struct buf *out)
{
	buf_printf(out, "%s %s %s", names[m->people[person]], firsts[m->first[person]], seconds[m->second[person]]);
}

static int draw_codes(struct maker *m, struct error *e)
{
	TRY(draw(m, LENGTH(names), m->people, e));
	TRY(draw(m, LENGTH(firsts), m->first, e));
	TRY(draw(m, LENGTH(seconds), m->second, e));
	buf_clear(&m->context);
	for (int p = 0; p < PEOPLE; p++) {
		buf_append_text(&m->context, p ? ", " : "Codes: ");
		append_code(m, p, &m->context);
	}
	buf_append_char(&m->context, '.');
	m->n_filler = 0;
	return buf_check(&m->context, e);
}

/* The context as a record has it: behind codes and filler the first person's question with its answer. */
static void append_context(const struct maker *m, struct buf *out)
{
	buf_append_str(out, buf_str(&m->context));
	buf_printf(out, "\n\nQuestion: What is the code of %s?\nAnswer: ", names[m->people[0]]);
	append_code(m, 0, out);
}

/* Tokens of a record's prompt, with its answer the most that any of the context's records takes. */
static int prompt_tokens(const struct maker *m, size_t *tokens, struct error *e)
{
	*tokens = 0;
	for (int p = 1; p < PEOPLE; p++) {
		struct buf prompt = {0};
		struct engine_ids ids = {0};
		append_context(m, &prompt);
		buf_printf(&prompt, "\n\nQuestion: What is the code of %s?\nAnswer:", names[m->people[p]]);
		int status = buf_check(&prompt, e);
		if (status == 0)
			status = engine_text_encode_prompt(m->text, buf_str(&prompt), &ids, e);
		if (status == 0 && ids.count + MAX_ANSWER > *tokens)
			*tokens = ids.count + MAX_ANSWER;
		engine_ids_free(&ids);
		buf_free(&prompt);
		TRY(status);
	}
	return 0;
}

/* Adds filler until the prompt is as long as it may be: by each sentence's own tokens first, then exactly, since tokens
 * of neighbours may join. */
static int fill(struct maker *m, size_t most, struct error *e)
{
	size_t tokens;
	TRY(prompt_tokens(m, &tokens, e));
	if (tokens > most)
		return error_set(e, ERR_USAGE,
			"recall: a record without filler takes %zu tokens, and %zu are asked for", tokens, most);
	for (;;) {
		uint64_t i = py_random_below(&m->random, LENGTH(fillers));
		if (tokens + m->filler_tokens[i] > most)
			break;
		buf_printf(&m->context, " %s %s", fillers[i][0], fillers[i][1]);
		tokens += m->filler_tokens[i];
		m->n_filler++;
	}
	TRY(buf_check(&m->context, e));
	TRY(prompt_tokens(m, &tokens, e));
	while (tokens > most && m->n_filler > 0) {
		do /* back to the full stop of the sentence before, or of the codes */
			m->context.length--;
		while (m->context.data[m->context.length - 1] != '.');
		m->n_filler--;
		TRY(prompt_tokens(m, &tokens, e));
	}
	return 0;
}

static void append_record(struct maker *m, int person, size_t tokens)
{
	struct buf context = {0}, answer = {0};
	append_context(m, &context);
	append_code(m, person, &answer);
	buf_append_text(m->out, "{\"context\": ");
	json_write_string(buf_str(&context), false, m->out);
	buf_printf(m->out, ", \"question\": \"What is the code of %s?\", \"answer\": ", names[m->people[person]]);
	json_write_string(buf_str(&answer), false, m->out);
	buf_printf(m->out, ", \"filler\": %d, \"tokens\": %zu}\n", m->n_filler, tokens);
	buf_free(&context);
	buf_free(&answer);
}

static int measure_fillers(struct maker *m, struct error *e)
{
	for (size_t i = 0; i < LENGTH(fillers); i++) {
		struct buf text = {0};
		struct engine_ids ids = {0};
		buf_printf(&text, " %s %s", fillers[i][0], fillers[i][1]);
		int status = buf_check(&text, e);
		if (status == 0)
			status = engine_text_encode(m->text, buf_str(&text), false, &ids, e);
		m->filler_tokens[i] = ids.count ? ids.count : 1;
		engine_ids_free(&ids);
		buf_free(&text);
		TRY(status);
	}
	return 0;
}

static int make_records(struct maker *m, size_t longest, struct error *e)
{
	TRY(measure_fillers(m, e));
	int halvings = 0;
	for (size_t n = longest; n / 2 >= SHORTEST; n /= 2)
		halvings++;
	for (; halvings >= 0; halvings--) {
		for (int c = 0; c < CONTEXTS; c++) {
			TRY(draw_codes(m, e));
			TRY(fill(m, longest >> halvings, e));
			for (int p = 1; p < PEOPLE; p++)
				append_record(m, p, longest >> halvings);
		}
	}
	return buf_check(m->out, e);
}

/* N of "recall:N", or 0. */
static int length_of(const char *name)
{
	const char *digits = suite_name_after(name, "recall:");
	int n = 0;
	for (; digits && *digits >= '0' && *digits <= '9' && n <= LARGEST; digits++)
		n = 10 * n + (*digits - '0');
	return digits && !*digits && n <= LARGEST ? n : 0;
}

static int make_documents(const char *name, const struct suite_options *options, struct buf *out, struct error *e)
{
	if (!options->text)
		return error_set(e, ERR_USAGE, "%s: its tokens are those of a model, expected --model", name);
	int n = length_of(name);
	if (n > options->max_positions)
		return error_set(e, ERR_USAGE, "%s: the model's context holds %d tokens", name, options->max_positions);
	struct maker m = {.text = options->text, .out = out};
	py_random_seed(&m.random, options->seed);
	int status = make_records(&m, (size_t)n, e);
	buf_free(&m.context);
	return status;
}

static int find_made(
	const char *name, const struct suite_options *options, struct suite_task_list *out, struct error *e)
{
	(void)options;
	int n = length_of(name);
	if (n == 0)
		return error_set(e, ERR_USAGE,
			"suite \"%s\": expected recall:N, N the tokens of the longest context, 1 to %d", name, LARGEST);
	struct suite_task *task = suite_task_add(out, e);
	if (!task)
		return ERR_MEMORY;
	TRY(task_text(&out->suite, e, "recall:%d", n));
	TRY(task_text(&task->name, e, "recall:%d", n));
	return task_text(&task->alias, e, "recall:%d", n);
}

static bool takes_length(const char *name)
{
	return suite_name_after(name, "recall:") != NULL;
}

const struct suite_type suite_type_recall = {
	.name = "recall",
	.definition = "a code told earlier in the context, behind filler; exact match, also by filler",
	.test_file = "recall/test.jsonl",
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 1,
	.group_column = "filler",
	.until = until,
	.n_until = 1,
	.max_tokens = MAX_ANSWER,
	.filters = filters,
	.exact_match = "recall",
	.append_question = append_question,
	.read_content = read_content,
};

const struct suite_type suite_type_recall_made = {
	.name = "recall:N",
	.definition = "the same made for the model, contexts of N, N / 2, N / 4 ... tokens; also by length",
	.takes = takes_length,
	.find_tasks = find_made,
	.make_documents = make_documents,
	.kind = REQUEST_GENERATE,
	.metrics = metrics,
	.n_metrics = 1,
	.group_column = "tokens",
	.until = until,
	.n_until = 1,
	.max_tokens = MAX_ANSWER,
	.filters = filters,
	.exact_match = "recall",
	.append_question = append_question,
	.read_content = read_made,
};
