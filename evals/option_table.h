/* The one table of commands and options: parsing, help texts and suggestions come from it. */
#ifndef ASSAY_EVALS_OPTION_TABLE_H
#define ASSAY_EVALS_OPTION_TABLE_H

#include <stddef.h>

enum command_bit {
	RUN = 1,
	LIST = 2,
	SHOW = 4,
	TOKENIZE = 8,
	GENERATE = 16,
	LOGPROBS = 32,
	PROMPTS = 64,
	RESCORE = 128,
	BENCH = 256,
	OVERHEAD = 512,
	INJECT = 1024,
	EXPORT = 1 << 14,
	IMPORT = 1 << 15,
	TEMPLATE = 1 << 16,
	COMPARE = 1 << 17,
	DIFF = 1 << 18,
	GATE = 1 << 19,
	REPORT = 1 << 20,
	DB = 1 << 21,
	EVERY = ~0u >> 1,
};

struct command_row {
	const char *name;
	unsigned bit;
	int min_arguments, max_arguments;
	const char *arguments; /* as the usage line writes them */
	const char *summary;   /* one line */
	const char *detail;    /* more lines for its own help, or "" */
};

/* What a value is and which member of struct options it goes to. */
enum option_kind {
	OPTION_FLAG,   /* bool, no value */
	OPTION_TEXT,   /* const char * */
	OPTION_CHOICE, /* const char *, one of choices */
	OPTION_COLOR,  /* enum color_mode, one of choices in its order */
	OPTION_LIST,   /* array of CLI_MAX_LIST texts and its count; repeatable, each value once */
	OPTION_NAMES,  /* the same, and values are split at commas */
	OPTION_INT,    /* int in [low, high] */
	OPTION_SEED,   /* uint64_t and has_seed */
	OPTION_SIZE,   /* uint64_t bytes, at least 1 */
	OPTION_LIMIT,  /* double above 0 */
	OPTION_NUMBER, /* double in [low, high] */
};

struct option_row {
	const char *name;  /* without its dashes */
	const char *value; /* as help writes it; NULL for a flag */
	enum option_kind kind;
	unsigned commands;    /* enum command_bit, or-ed: who takes it */
	size_t member, count; /* offsets in struct options; count for lists */
	double low, high;
	const char *const *choices; /* NULL-terminated */
	char letter;                /* 0: none */
	const char *help;
};

extern const struct command_row command_table[]; /* name NULL ends it */
extern const struct option_row option_table[];   /* name NULL ends it */

const struct command_row *command_find(const char *name); /* NULL: unknown */

#endif
