/* The command line: one table of options for every command, and the commands themselves. */
#ifndef ASSAY_EVALS_CLI_H
#define ASSAY_EVALS_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/base/error.h"

enum { CLI_MAX_LIST = 64 };

enum color_mode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* Every option that is built, parsed. Strings are borrowed from argv. */
struct options {
	const char *command;                 /* NULL: none, only with help or version */
	bool help, version;                  /* asked for; nothing else was checked then */
	char note[160];                      /* a remark on the options for stderr, or empty */
	const char *arguments[CLI_MAX_LIST]; /* positional, after the command */
	int n_arguments;

	const char *model;                  /* NULL: the bundled pocket model */
	const char *variants[CLI_MAX_LIST]; /* "W/K" texts */
	int n_variants;
	const char *data;                 /* NULL: the bundled pocket set */
	const char *suites[CLI_MAX_LIST]; /* split at commas, names in ASCII lower case; owned by text_storage */
	int n_suites;
	int fewshot;  /* -1: default */
	double limit; /* 0: none */
	int sample;   /* 0: all */
	bool has_seed;
	uint64_t seed;
	const char *guard;      /* NULL or "none" */
	const char *guard_mode; /* "enforce" or "observe"; NULL: enforce */
	int audit_every;        /* steps; 0: default */
	bool log_json;
	int threads;                               /* 0: all */
	int ranks;                                 /* 0: one */
	int page_size;                             /* 0: default */
	uint64_t kv_memory;                        /* bytes; 0: default */
	int max_batch_tokens, chunk, max_requests; /* 0: default */
	bool no_prefix_cache, pad_decode;
	const char *backend;   /* "cpu" or "cuda"; NULL: cpu */
	int device;            /* number of the CUDA device */
	const char *gemm;      /* "own" or "library"; NULL: own */
	double deadline;       /* seconds of a request; 0: none */
	const char *think_end; /* run: what ends a model's reasoning; NULL: none is expected */
	const char *db;        /* NULL: $XDG_DATA_HOME/assay/assay.db */
	bool json, quiet, verbose, dry_run;
	const char *text;                     /* run: what divergence reads; NULL: the baseline's answers */
	const char *kv_scale, *kv_scale_text; /* run: "checkpoint" (NULL), or "calibrate" over that file */
	/* export, import */ const char *lm_eval;
	const char *renames[CLI_MAX_LIST]; /* OLD=NEW */
	int n_renames;
	const char *html, *markdown, *csv; /* files to write; NULL: none */
	const char *shard;                 /* run: "I/N"; NULL: the whole */
	enum color_mode color;

	/* tokenize */ bool ids, json_lines;
	/* chat templates */
	const char *template;           /* NULL: the model's default */
	const char *date;               /* NULL: now */
	bool apply_chat_template;       /* run, prompts */
	const char *multiturn;          /* NULL, "true" or "false" */
	const char *system_instruction; /* NULL: none */
	bool chat;                      /* generate */
	const char *tools;              /* generate: a file; NULL: none */
	const char *tool_format;        /* NULL: as the template shows */

	/* generate */ const char *prompt, *prompts;
	const char *stops[CLI_MAX_LIST];
	int n_stops;
	int max_tokens; /* 0: default */
	double temperature, top_p;
	int top_k;
	/* prompts */ bool hashes, samples;
	/* show */ const char *show_samples; /* suite */
	/* list */ bool list_suites;
	/* gate */ const char *baseline, *candidate, *policy, *junit;
	double margin; /* points; 0: the policy's */
	bool plan;
	/* compare */ bool flips;
	/* diff */ const char *item;
	/* inject */ const char *guards[CLI_MAX_LIST], *sites[CLI_MAX_LIST], *replay;
	int n_guards, n_sites, trials; /* 0: default */
	bool exhaustive, list_sites;
	/* bench */ bool machine;
	const char *concurrency[CLI_MAX_LIST];
	int n_concurrency, input, output, repeat; /* 0: default */
	int shared_prefix;
	bool residents;
	/* overhead */ const char *arms[CLI_MAX_LIST];
	int n_arms, blocks;
	const char *random_weights; /* config.json; NULL: a model */
	char *text_storage;         /* owned: copies that the parser split */
};

/* Each command returns an exit code (ARCHITECTURE section 5); on failure *e holds the message, which main prints. */
typedef int command_function(const struct options *o, struct error *e);

command_function cmd_run, cmd_list, cmd_show, cmd_tokenize, cmd_generate, cmd_logprobs, cmd_prompts, cmd_rescore,
	cmd_bench, cmd_overhead, cmd_inject, cmd_template, cmd_db, cmd_report, cmd_compare, cmd_diff, cmd_gate,
	cmd_export, cmd_import;

/* For a call of gate that could not be parsed: writes that into the files that it names, so that none of before stays. */
void cmd_gate_refused(const struct options *o, const struct error *e);

/* Parses argv. ERR_USAGE with a message that names the option, the value and what was expected (and the nearest name
 * for an unknown option or command). "--" ends options. What values mean to a suite, an engine or a guard is not judged
 * here. o is to be freed on failure, too. */
int options_parse(int argc, char **argv, struct options *o, struct error *e);
void options_free(struct options *o);

/* Appends what `assay COMMAND --help` prints; command NULL: the list of commands. */
void options_help(const char *command, struct buf *out);

/* "512MiB", "1.5GiB", "4096" to bytes. ERR_USAGE for anything else, or what 64 bits do not hold. */
int parse_size(const char *text, uint64_t *out);

/* The database to use: --db, else $XDG_DATA_HOME/assay/assay.db, else ~/.local/share/assay/assay.db. The caller frees
 * it. */
char *db_path(const struct options *o, struct error *e);

/* The folder of the bundled pocket set ("model" and "data" below it): beside the program, or where it was installed.
 * The caller frees it. */
char *pocket_folder(struct error *e);

/* True after SIGINT or SIGTERM: finish the sample in hand, then stop with ERR_INTERRUPTED. */
bool interrupted(void);
/* Only for commands that ask interrupted() often: the first signal sets that flag, a second one ends the process at
 * once with 130. */
void interrupt_handlers_install(void);

#endif
