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
		"FILE (default: standard input) holds lines {\"context\", \"continuation\"}, each a string or an array "
		"of token ids.\n"},
	{"template", TEMPLATE, 0, 1, "[FILE]", "write conversations as a model's chat template does",
		"FILE (default: standard input) holds lines {\"messages\", \"tools\"?, \"add_generation_prompt\"?, "
		"...};\n"
		"other members are variables of the template. A line that the template refuses gives {\"error\"}.\n"},
	{"prompts", PROMPTS, 0, 0, "", "show the prompts of suites, or their hashes", ""},
	{"rescore", RESCORE, 1, 1, "FILE", "score stored answers of lm-evaluation-harness again",
		"FILE holds sample lines (a gzip file and - for standard input will do).\n"},
	{"compare", COMPARE, 2, 2, "A B", "paired statistics of two runs over the same items",
		"A (the baseline) and B are [DATABASE:]RUN[:VARIANT], or files of sample lines of "
		"lm-evaluation-harness.\n"
		"RUN is an id, the beginning of a uid, or 'latest'. A drop is the baseline's score minus the "
		"candidate's.\n"},
	{"diff", DIFF, 2, 2, "A B", "one item's two answers, word by word", "A and B as for 'assay compare'.\n"},
	{"gate", GATE, 0, 0, "", "may the candidate replace the baseline: verdict and exit code for CI",
		"A and B are [DATABASE:]RUN[:VARIANT], or files of sample lines of lm-evaluation-harness.\n"
		"By default the pooled drop must be below 1 point and that of the right choices' log-probability "
		"below\n"
		"0.02 nat, by their one-sided 95% bounds; a policy says otherwise.\n"
		"Exit: 0 pass, 1 fail, 2 usage, 3 inconclusive, 4 error, 5 nothing to compare.\n"},
	{"bench", BENCH, 0, 0, "", "measure throughput and latency by concurrency, and what the machine allows",
		"Speeds stand beside the share of the floor: the least time that reading the weights and the cache, or "
		"the\n"
		"multiply-adds, would take at the machine's measured ceilings. Each level keeps its number of requests "
		"in\n"
		"flight. Every row is stored.\n"},
	{"overhead", OVERHEAD, 0, 0, "", "what guards cost: arms interleaved in random blocks, with intervals",
		"Each block measures every arm once, in random order, each with fresh pages and a fresh guard; the "
		"weights are\n"
		"loaded once. Pairs of one block are compared. With --repeat 1 a block's requests begin together.\n"
		"none is measured twice: the difference of the two is what the measurement can resolve.\n"
		"Every arm of every block is stored.\n"},
	{"inject", INJECT, 0, 0, "", "break the page bookkeeping in every known way, count what guards catch",
		"Each trial plants one fault in a small workload and compares it with the same workload without: once "
		"with\n"
		"every check recording and none stopping anything, once enforced at each level. The same seed prints "
		"the "
		"same\n"
		"bytes; an interrupted campaign is gone on with. --sites none plants nothing: whatever fires is a "
		"false "
		"alarm.\n"
		"Exit: 0 every escape is one that its site declares, 1 not so, 2 usage, 4 error, 130 interrupted.\n"},
	{"report", REPORT, 0, CLI_MAX_LIST, "[RUN...]", "a page, or tables, of stored runs",
		"RUN: an id, the beginning of a uid, or 'latest'; without one the newest complete run of each kind.\n"
		"The first variant of the first run is the baseline of all others. FILE may be - for standard output.\n"
		"Plots need gnuplot; without it the tables stand alone.\n"},
	{"db", DB, 1, CLI_MAX_LIST, "check | vacuum | merge [FILE[:RUN]...] | export FILE", "look after the store",
		"check    is the file sound: SQLite's own checks, and what assay relies on\n"
		"vacuum   give free pages back to the file system\n"
		"merge    join the shards of a run (assay run --shard I/N) that are in those files, or in the store "
		"itself,\n"
		"         into one run of the store\n"
		"export   write a copy to a new FILE, also while a run writes\n"},
	{"export", EXPORT, 1, 1, "RUN[:VARIANT]", "write a run as lm-evaluation-harness would",
		"Makes a folder for each variant in DIR, with results_<time>.json and a samples_<task>_<time>.jsonl "
		"for each "
		"task,\n"
		"and prints its name.\n"},
	{"import", IMPORT, 0, 0, "", "take runs of lm-evaluation-harness into the store",
		"Each results_<time>.json in DIR, or in folders in it, becomes a run, with the samples beside it (the "
		"harness\n"
		"writes them with --log_samples). What was imported before is not imported again.\n"},
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
	MODEL = RUN | TOKENIZE | GENERATE | LOGPROBS | PROMPTS | BENCH | OVERHEAD | INJECT | TEMPLATE,
	GUARDED = RUN | GENERATE | LOGPROBS | BENCH,
	ENGINE = GUARDED | OVERHEAD,
	STORE = RUN | LIST | SHOW | REPORT | DB | COMPARE | DIFF | GATE | BENCH | OVERHEAD | INJECT | EXPORT | IMPORT,
	DATA = RUN | LIST | PROMPTS | RESCORE | EXPORT,
};

static const char *const guards[] = {"none", "tags", "pages", "chain", "digest", NULL};
static const char *const booleans[] = {"true", "false", NULL};
static const char *const guard_modes[] = {"enforce", "observe", NULL};
static const char *const kv_scales[] = {"checkpoint", "calibrate", NULL};
static const char *const backends[] = {"cpu", "cuda", NULL};
static const char *const products[] = {"own", "library", NULL};
static const char *const colors[] = {"auto", "always", "never", NULL};

#define AT(member) offsetof(struct options, member)
#define ROW_OPTION(name, value, kind, commands, member, help)                   \
	{                                                                       \
		name, value, kind, commands, AT(member), 0, 0, 0, NULL, 0, help \
	}
#define TEXT_OPTION(name, value, commands, member, help) ROW_OPTION(name, value, OPTION_TEXT, commands, member, help)
#define FLAG_OPTION(name, letter, commands, member, help)                                  \
	{                                                                                  \
		name, NULL, OPTION_FLAG, commands, AT(member), 0, 0, 0, NULL, letter, help \
	}
#define CHOICE_OPTION(name, value, kind, commands, member, choices, help)          \
	{                                                                          \
		name, value, kind, commands, AT(member), 0, 0, 0, choices, 0, help \
	}
#define LIST_OPTION(name, value, kind, commands, member, count, help)                   \
	{                                                                               \
		name, value, kind, commands, AT(member), AT(count), 0, 0, NULL, 0, help \
	}
#define RANGE_OPTION(name, value, kind, commands, member, low, high, help)           \
	{                                                                            \
		name, value, kind, commands, AT(member), 0, low, high, NULL, 0, help \
	}
#define INT_OPTION(name, value, commands, member, low, high, help) \
	RANGE_OPTION(name, value, OPTION_INT, commands, member, low, high, help)

const struct option_row option_table[] = {
	TEXT_OPTION(
		"model", "PATH", MODEL, model, "Hugging Face folder or .gguf file; default: the bundled pocket model"),
	TEXT_OPTION("template", "NAME|FILE", TEMPLATE | GENERATE | RUN | PROMPTS, template,
		"the chat template: a name among the model's, or a file; default: the model's"),
	TEXT_OPTION("date", "DATE", TEMPLATE | GENERATE | RUN | PROMPTS, date,
		"what a chat template takes for now: YYYY-MM-DD, or YYYY-MM-DDTHH:MM:SS; default: now"),
	TEXT_OPTION("tool-format", "NAME", GENERATE | RUN | PROMPTS | RESCORE, tool_format,
		"format of tool calls: hermes, llama3, glm, kimi or json (unmarked hermes); default: the template's"),
	FLAG_OPTION("apply-chat-template", 0, RUN | PROMPTS, apply_chat_template,
		"put questions as turns of a conversation, through the model's chat template"),
	CHOICE_OPTION("fewshot-as-multiturn", "true|false", OPTION_CHOICE, RUN | PROMPTS, multiturn, booleans,
		"solved examples as turns of their own, or folded into the question's; default true"),
	TEXT_OPTION("system-instruction", "TEXT", RUN | PROMPTS, system_instruction,
		"goes before each prompt, or is its system message under a chat template"),
	LIST_OPTION("variant", "W/K", OPTION_LIST, ENGINE, variants, n_variants,
		"bf16 fp8 fp8w int4 int4g32 int4g64 / f32 bf16 fp8; W/K>W/K: prefill > decode; repeatable"),
	TEXT_OPTION("data", "DIR", DATA | GATE | REPORT, data,
		"data sets (gsm8k/, arc/, mmlu/ ...); default: the bundled pocket set"),
	LIST_OPTION("suite", "A,B", OPTION_NAMES, RUN | PROMPTS | RESCORE | COMPARE | DIFF | GATE, suites, n_suites,
		"suites by name, or exam files; 'assay list --suites' lists them"),
	INT_OPTION("fewshot", "K", RUN | PROMPTS, fewshot, 0, 1000,
		"solved examples before each question; default: the suite's own"),
	ROW_OPTION("limit", "N", OPTION_LIMIT, RUN | PROMPTS, limit,
		"the first N items of each suite, or below 1 that fraction; such a run is not for gating"),
	INT_OPTION("sample", "N", RUN | PROMPTS, sample, 1, INT_MAX,
		"N items of each suite, chosen by hash: the same for a seed, unbiased, fit for gating"),
	ROW_OPTION("seed", "S", OPTION_SEED, RUN | PROMPTS | GENERATE | BENCH | OVERHEAD | INJECT, seed,
		"seed of few-shot choice, --sample, sampling and a benchmark's prompts"),
	CHOICE_OPTION("kv-scale", "FROM", OPTION_CHOICE, RUN, kv_scale, kv_scales,
		"scales of an fp8 cache: checkpoint (default; 1 where it has none), or calibrate: largest value / 448"),
	TEXT_OPTION("kv-scale-text", "FILE", RUN, kv_scale_text, "the text that --kv-scale calibrate reads"),
	CHOICE_OPTION("guard", "LEVEL", OPTION_CHOICE, GUARDED, guard, guards,
		"integrity checks: none, tags, pages, chain or digest; default none"),
	CHOICE_OPTION("guard-mode", "MODE", OPTION_CHOICE, GUARDED, guard_mode, guard_modes,
		"enforce: withhold what a check finds wrong (default); observe: record it, abort nothing"),
	INT_OPTION("audit-every", "N", ENGINE, audit_every, 1, INT_MAX,
		"steps between audits of free list and reference counts; default 64"),
	FLAG_OPTION("log-json", 0, GUARDED, log_json, "incidents of the guard as JSON lines on standard error"),
	LIST_OPTION("guard", "LEVEL,...", OPTION_NAMES, INJECT, guards, n_guards,
		"levels to enforce: none, tags, pages, chain, digest; default pages"),
	LIST_OPTION("sites", "A,B", OPTION_NAMES, INJECT, sites, n_sites,
		"what to break: all (default), models as M1,M7, names as --list shows them, or none"),
	INT_OPTION("trials", "N", INJECT, trials, 1, 1000000,
		"how many; default 1000. With --exhaustive: in how many workloads; default 4"),
	FLAG_OPTION("exhaustive", 0, INJECT, exhaustive, "every occurrence of every site, in so many workloads"),
	TEXT_OPTION("replay", "LINE", INJECT, replay, "run the one trial that a replay line names"),
	FLAG_OPTION("list", 0, INJECT, list_sites, "list the sites: where they are, what they do, who must catch them"),
	CHOICE_OPTION(
		"backend", "cpu|cuda", OPTION_CHOICE, ENGINE, backend, backends, "where the model runs; default cpu"),
	INT_OPTION("device", "N", ENGINE, device, 0, 1023, "the CUDA device; default 0"),
	CHOICE_OPTION("gemm", "own|library", OPTION_CHOICE, BENCH, gemm, products,
		"matrix products of bf16 weights on CUDA: our own kernels, or cuBLASLt as the ceiling, whose answers\n"
		"depend on the batch; default own"),
	INT_OPTION("threads", "N", ENGINE | INJECT, threads, 1, 1024, "default: all processors"),
	INT_OPTION("tp", "N", ENGINE, ranks, 1, 8,
		"tensor parallelism: N ranks share weights, KV cache and threads; changes no answer. "
		"N must divide the\n"
		"kv heads and the parts of the sums (1, 2, 4, 8 as the model and its weights allow); default 1"),
	INT_OPTION("page-size", "N", ENGINE, page_size, 1, INT_MAX, "tokens of a KV page, a divisor of 64; default 16"),
	ROW_OPTION("kv-memory", "SIZE", OPTION_SIZE, ENGINE, kv_memory,
		"memory of the KV cache, of all ranks together: bytes, or a number with KiB, MiB or GiB; default 1GiB"),
	INT_OPTION("max-batch-tokens", "N", ENGINE, max_batch_tokens, 1, INT_MAX, "tokens of one step; default 512"),
	INT_OPTION("chunk", "N", ENGINE, chunk, 1, INT_MAX, "longest piece of a prefill; default: a whole step"),
	INT_OPTION("max-requests", "N", ENGINE, max_requests, 1, INT_MAX, "requests that run at a time; default 32"),
	FLAG_OPTION("no-prefix-cache", 0, ENGINE, no_prefix_cache,
		"compute every prompt whole, also where its beginning is in the cache; changes no answer"),
	FLAG_OPTION("pad-decode", 0, ENGINE, pad_decode,
		"fill decode batches up to powers of two, as captured graphs need it; changes no answer"),
	RANGE_OPTION("deadline", "SECONDS", OPTION_NUMBER, RUN | GENERATE, deadline, 0, 1000000,
		"a request that takes longer ends: an item without an answer; default 0: none"),
	TEXT_OPTION("think-end", "TEXT", RUN, think_end,
		"an answer is what follows the last TEXT ('</think>'); stop strings count only there"),
	TEXT_OPTION("db", "FILE", STORE, db, "the store; default $XDG_DATA_HOME/assay/assay.db"),
	FLAG_OPTION("ids", 0, TOKENIZE, ids, "print ids, not pieces"),
	FLAG_OPTION("json-lines", 0, TOKENIZE, json_lines, "lines of input are JSON strings"),
	TEXT_OPTION("prompt", "TEXT", GENERATE, prompt, "the prompt"),
	TEXT_OPTION("prompts", "FILE", GENERATE, prompts,
		"lines {\"prompt\"}, with --chat also {\"messages\", \"tools\"?}"),
	INT_OPTION("max-tokens", "N", GENERATE, max_tokens, 1, INT_MAX, "most tokens of an answer; default 128"),
	FLAG_OPTION("chat", 0, GENERATE, chat, "prompts are conversations, put through the model's chat template"),
	TEXT_OPTION("tools", "FILE", GENERATE, tools, "a JSON array of tools that the model may call, with --chat"),
	LIST_OPTION(
		"stop", "TEXT", OPTION_LIST, GENERATE, stops, n_stops, "the answer ends before this text; repeatable"),
	RANGE_OPTION("temperature", "T", OPTION_NUMBER, GENERATE, temperature, 0, 1000,
		"0 (default) takes the likeliest token"),
	RANGE_OPTION("top-p", "P", OPTION_NUMBER, GENERATE, top_p, 0, 1,
		"draw among the likeliest tokens that make up this probability; default 1"),
	INT_OPTION("top-k", "K", GENERATE, top_k, 0, INT_MAX, "draw among the K likeliest tokens; default 0: all"),
	FLAG_OPTION("hashes", 0, PROMPTS, hashes, "print a table of hashes of documents, prompts and targets"),
	FLAG_OPTION("samples", 0, PROMPTS, samples, "print the prompts, a JSON document a line"),
	TEXT_OPTION("samples", "SUITE", SHOW, show_samples, "show every answer of that suite, too"),
	FLAG_OPTION("suites", 0, LIST, list_suites, "list the suites with their sizes and definitions"),
	TEXT_OPTION("baseline", "A", GATE, baseline, "what is trusted"),
	TEXT_OPTION("candidate", "B", GATE, candidate, "what may replace it"),
	RANGE_OPTION("margin", "POINTS", OPTION_NUMBER, GATE, margin, 0.001, 100,
		"the drop that is tolerated, in points; default 1"),
	TEXT_OPTION("policy", "FILE", GATE, policy, "margins and tiers, as JSON"),
	FLAG_OPTION("plan", 0, GATE, plan, "what so many items could decide, before any run"),
	FLAG_OPTION("flips", 0, COMPARE, flips, "list the items that changed, with both answers"),
	TEXT_OPTION("item", "ID", DIFF, item, "a document's number, or TASK/NUMBER"),
	FLAG_OPTION("machine", 0, BENCH, machine, "measure the machine alone: read bandwidth and FMA peak"),
	LIST_OPTION("concurrency", "A,B", OPTION_NAMES, BENCH | OVERHEAD, concurrency, n_concurrency,
		"requests at a time; default 1"),
	INT_OPTION("input", "N", BENCH | OVERHEAD, input, 1, INT_MAX, "tokens of each prompt; default 512"),
	INT_OPTION("output", "N", BENCH | OVERHEAD, output, 1, INT_MAX, "tokens of each answer; default 64"),
	INT_OPTION("repeat", "N", BENCH | OVERHEAD, repeat, 1, 1000,
		"requests of a level: N times its concurrency, a new one as one ends; default 4 (overhead: 1)"),
	INT_OPTION("shared-prefix", "N", BENCH, shared_prefix, 0, INT_MAX,
		"tokens that all prompts begin with, of --input; default 0"),
	TEXT_OPTION("random-weights", "CONFIG", BENCH, random_weights,
		"a config.json: measure the model that it describes with random weights, without a checkpoint"),
	FLAG_OPTION("residents", 0, BENCH, residents,
		"find the most requests, sharing nothing, that run at once in --kv-memory, by running them"),
	LIST_OPTION("arms", "A,B", OPTION_NAMES, OVERHEAD, arms, n_arms,
		"guard levels to compare with none; default pages"),
	INT_OPTION("blocks", "N", OVERHEAD, blocks, 2, 10000, "blocks of every arm; default 40"),
	TEXT_OPTION("lm-eval", "DIR", EXPORT | IMPORT, lm_eval, "folder of lm-evaluation-harness's files"),
	LIST_OPTION("rename", "OLD=NEW", OPTION_LIST, IMPORT, renames, n_renames,
		"call task or group OLD by the suite's name NEW ('my_*=*' does many); repeatable"),
	TEXT_OPTION(
		"text", "FILE", RUN, text, "what --suite divergence reads; default: the first variant's own answers"),
	TEXT_OPTION("html", "FILE", REPORT | GATE, html, "write one self-contained page"),
	TEXT_OPTION("markdown", "FILE", REPORT | GATE, markdown, "write tables as Markdown"),
	TEXT_OPTION("junit", "FILE", GATE, junit, "write the verdict as JUnit XML"),
	TEXT_OPTION("csv", "FILE", REPORT, csv, "write every number as lines table,subject,row,column,value"),
	TEXT_OPTION("shard", "I/N", RUN, shard, "only part I of N of the items; assay db merge joins the parts"),
	FLAG_OPTION("dry-run", 0, RUN, dry_run, "print what would be done, do nothing"),
	FLAG_OPTION("json", 0,
		RUN | LIST | SHOW | DB | COMPARE | DIFF | GATE | IMPORT | GENERATE | LOGPROBS | RESCORE | BENCH |
			OVERHEAD | INJECT,
		json, "print JSON"),
	CHOICE_OPTION("color", "WHEN", OPTION_COLOR, EVERY, color, colors, "auto, always or never; default auto"),
	FLAG_OPTION("quiet", 'q', EVERY, quiet, "no progress and no notes"),
	FLAG_OPTION("verbose", 'v', EVERY, verbose, "say more on standard error"),
	FLAG_OPTION("help", 'h', EVERY, help, "this text"),
	{.name = NULL},
};
