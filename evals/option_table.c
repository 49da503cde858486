#include "evals/option_table.h"

#include <limits.h>
#include <string.h>

#include "evals/cli.h"

const struct command_row command_table[] = {
	{"run", RUN, 0, 0, "", "evaluate suites under every variant of a model",
		"Each answer is stored as it comes. An interrupted run of the same configuration is gone on with.\n"
		"Exit: 0 done, 2 usage, 4 error, 5 nothing evaluated, 130 interrupted and resumable.\n"},
	{"list", LIST, 0, 0, "", "list the runs that are stored", ""},
	{"show", SHOW, 1, 1, "RUN", "show the results of a run",
		"RUN is an id, the beginning of a uid, or 'latest'.\n"},
	{"tokenize", TOKENIZE, 0, 1, "[FILE]", "turn lines of text into tokens",
		"Each line of FILE (default: standard input) is one text, without its line feed.\n"},
	{"generate", GENERATE, 0, 0, "", "let a model go on with prompts", ""},
	{"logprobs", LOGPROBS, 0, 1, "[FILE]", "log-probabilities of continuations",
		"FILE (default: standard input) holds lines {\"context\", \"continuation\"}, each a string or an array of token ids.\n"},
	{"prompts", PROMPTS, 0, 0, "", "show the prompts of suites, or their hashes", ""},
	{"rescore", RESCORE, 1, 1, "FILE", "score stored answers of lm-evaluation-harness again",
		"FILE holds sample lines (a gzip file and - for standard input will do).\n"},
	{NULL, 0, 0, 0, NULL, NULL, NULL},
};

const struct command_row *command_find(const char *name)
{
	for (const struct command_row *c = command_table; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

enum {
	MODEL = RUN | TOKENIZE | GENERATE | LOGPROBS,
	ENGINE = RUN | GENERATE | LOGPROBS,
	STORE = RUN | LIST | SHOW,
	DATA = RUN | PROMPTS | RESCORE,
};

#define AT(member) offsetof(struct options, member)

static const char *const guards[] = {"none", "tags", "pages", "chain", "digest", NULL};
static const char *const colors[] = {"auto", "always", "never", NULL};

const struct option_row option_table[] = {
	{.name = "model", .kind = OPTION_TEXT, .commands = MODEL, .member = AT(model), .value = "PATH",
		.help = "Hugging Face folder; default: the bundled pocket model"},
	{.name = "variant", .kind = OPTION_LIST, .commands = ENGINE, .member = AT(variants), .count = AT(n_variants),
		.value = "W/K",
		.help = "weights bf16 fp8 fp8w int4 int4g32 int4g64, KV cache f32 bf16 fp8; repeatable; default bf16/bf16"},
	{.name = "data", .kind = OPTION_TEXT, .commands = DATA, .member = AT(data), .value = "DIR",
		.help = "data sets (gsm8k/, arc/, recall/); default: the bundled pocket set"},
	{.name = "suite", .kind = OPTION_NAMES, .commands = DATA, .member = AT(suites), .count = AT(n_suites),
		.value = "A,B", .help = "suites by name; 'assay list --suites' lists them"},
	{.name = "fewshot", .kind = OPTION_INT, .commands = RUN | PROMPTS, .member = AT(fewshot), .value = "K",
		.help = "solved examples before each question; default: the suite's own", .low = 0, .high = 1000},
	{.name = "limit", .kind = OPTION_LIMIT, .commands = RUN | PROMPTS, .member = AT(limit), .value = "N",
		.help = "only the first N items of each suite, or below 1 that fraction; such a run is not for gating"},
	{.name = "seed", .kind = OPTION_SEED, .commands = RUN | PROMPTS | GENERATE, .member = AT(seed), .value = "S",
		.help = "seed of few-shot choice and sampling"},
	{.name = "guard", .kind = OPTION_CHOICE, .commands = ENGINE, .member = AT(guard), .value = "LEVEL",
		.help = "integrity checks: none, tags, pages, chain or digest; default none", .choices = guards},
	{.name = "threads", .kind = OPTION_INT, .commands = ENGINE, .member = AT(threads), .value = "N",
		.help = "default: all processors", .low = 1, .high = 1024},
	{.name = "page-size", .kind = OPTION_INT, .commands = ENGINE, .member = AT(page_size), .value = "N",
		.help = "tokens of a KV page", .low = 1, .high = INT_MAX},
	{.name = "kv-memory", .kind = OPTION_SIZE, .commands = ENGINE, .member = AT(kv_memory), .value = "SIZE",
		.help = "memory of the KV cache: bytes, or a number with KiB, MiB or GiB"},
	{.name = "max-batch-tokens", .kind = OPTION_INT, .commands = ENGINE, .member = AT(max_batch_tokens), .value = "N",
		.help = "tokens of one step", .low = 1, .high = INT_MAX},
	{.name = "chunk", .kind = OPTION_INT, .commands = ENGINE, .member = AT(chunk), .value = "N",
		.help = "longest piece of a prefill", .low = 1, .high = INT_MAX},
	{.name = "max-requests", .kind = OPTION_INT, .commands = ENGINE, .member = AT(max_requests), .value = "N",
		.help = "requests in flight", .low = 1, .high = INT_MAX},
	{.name = "db", .kind = OPTION_TEXT, .commands = STORE, .member = AT(db), .value = "FILE",
		.help = "the store; default $XDG_DATA_HOME/assay/assay.db"},
	{.name = "ids", .kind = OPTION_FLAG, .commands = TOKENIZE, .member = AT(ids), .help = "print ids, not pieces"},
	{.name = "json-lines", .kind = OPTION_FLAG, .commands = TOKENIZE, .member = AT(json_lines),
		.help = "lines of input are JSON strings"},
	{.name = "prompt", .kind = OPTION_TEXT, .commands = GENERATE, .member = AT(prompt), .value = "TEXT",
		.help = "the prompt"},
	{.name = "prompts", .kind = OPTION_TEXT, .commands = GENERATE, .member = AT(prompts), .value = "FILE",
		.help = "lines {\"prompt\"}"},
	{.name = "max-tokens", .kind = OPTION_INT, .commands = GENERATE, .member = AT(max_tokens), .value = "N",
		.help = "most tokens of an answer", .low = 1, .high = INT_MAX},
	{.name = "stop", .kind = OPTION_LIST, .commands = GENERATE, .member = AT(stops), .count = AT(n_stops),
		.value = "TEXT", .help = "the answer ends before this text; repeatable"},
	{.name = "temperature", .kind = OPTION_NUMBER, .commands = GENERATE, .member = AT(temperature), .value = "T",
		.help = "0 (default) takes the likeliest token", .low = 0, .high = 1000},
	{.name = "top-p", .kind = OPTION_NUMBER, .commands = GENERATE, .member = AT(top_p), .value = "P",
		.help = "draw among the likeliest tokens that make up this probability; default 1", .low = 0, .high = 1},
	{.name = "top-k", .kind = OPTION_INT, .commands = GENERATE, .member = AT(top_k), .value = "K",
		.help = "draw among the K likeliest tokens; default 0: all", .low = 0, .high = INT_MAX},
	{.name = "hashes", .kind = OPTION_FLAG, .commands = PROMPTS, .member = AT(hashes),
		.help = "print a table of hashes of documents, prompts and targets"},
	{.name = "samples", .kind = OPTION_FLAG, .commands = PROMPTS, .member = AT(samples),
		.help = "print the prompts, a JSON document a line"},
	{.name = "samples", .kind = OPTION_TEXT, .commands = SHOW, .member = AT(show_samples), .value = "SUITE",
		.help = "show every answer of that suite, too"},
	{.name = "suites", .kind = OPTION_FLAG, .commands = LIST, .member = AT(list_suites),
		.help = "list the names that --suite takes"},
	{.name = "dry-run", .kind = OPTION_FLAG, .commands = RUN, .member = AT(dry_run),
		.help = "print what would be done, do nothing"},
	{.name = "json", .kind = OPTION_FLAG, .commands = STORE | GENERATE | LOGPROBS | RESCORE, .member = AT(json),
		.help = "print JSON"},
	{.name = "color", .kind = OPTION_COLOR, .commands = EVERY, .member = AT(color), .value = "WHEN",
		.help = "auto, always or never; default auto", .choices = colors},
	{.name = "quiet", .letter = 'q', .kind = OPTION_FLAG, .commands = EVERY, .member = AT(quiet),
		.help = "no progress and no notes"},
	{.name = "verbose", .letter = 'v', .kind = OPTION_FLAG, .commands = EVERY, .member = AT(verbose),
		.help = "say more on standard error"},
	{.name = "help", .letter = 'h', .kind = OPTION_FLAG, .commands = EVERY, .member = AT(help), .help = "this text"},
	{.name = NULL},
};
