#include <stdlib.h>
#include <string.h>

#include "evals/cli.h"
#include "evals/option_table.h"
#include "evals/option_values.h"

struct parser {
	int argc;
	char **argv;
	int next; /* index of the argument to read next */
	const struct command_row *command;
	struct options *o;
	char *storage_end; /* first free byte of o->text_storage */
};

/* ---- Finding names ---- */

/* An option's name in an argument ends at '=' or at the end. */
static bool name_matches(const struct option_row *row, const char *name, size_t length)
{
	return strlen(row->name) == length && memcmp(row->name, name, length) == 0;
}

static const struct option_row *find_option(unsigned commands, const char *name, size_t length)
{
	for (const struct option_row *row = option_table; row->name; row++)
		if ((row->commands & commands) && name_matches(row, name, length))
			return row;
	return NULL;
}

static const struct option_row *find_letter(unsigned commands, char letter)
{
	for (const struct option_row *row = option_table; row->name; row++)
		if ((row->commands & commands) && row->letter == letter)
			return row;
	return NULL;
}

static const char *nearest_option(unsigned commands, const char *name)
{
	enum { MOST = 64 };
	const char *names[MOST + 1];
	int n = 0;
	for (const struct option_row *row = option_table; row->name && n < MOST; row++)
		if (row->commands & commands)
			names[n++] = row->name;
	names[n] = NULL;
	return option_nearest(name, names);
}

static const char *nearest_command(const char *name)
{
	const char *names[64];
	int n = 0;
	for (const struct command_row *row = command_table; row->name && n < 63; row++)
		names[n++] = row->name;
	names[n] = NULL;
	return option_nearest(name, names);
}

static int unknown_option(const struct parser *p, const char *argument, struct error *e)
{
	const char *command = p->command->name;
	const char *name = argument + (argument[1] == '-' ? 2 : 1);
	size_t length = strcspn(name, "=");
	char wanted[64];
	snprintf(wanted, sizeof(wanted), "%.*s", (int)(length > 60 ? 60 : length), name);
	const struct option_row *elsewhere = find_option(EVERY, name, length);
	if (elsewhere) {
		char takers[128] = "";
		for (const struct command_row *c = command_table; c->name; c++) {
			size_t used = strlen(takers);
			if (elsewhere->commands & c->bit)
				snprintf(takers + used, sizeof(takers) - used, "%s%s", used ? ", " : "", c->name);
		}
		return error_set(e, ERR_USAGE, "'assay %s' does not take --%s, it belongs to: %s", command,
			elsewhere->name, takers);
	}
	const char *nearest = nearest_option(p->command->bit, wanted);
	if (nearest)
		return error_set(e, ERR_USAGE, "'assay %s' has no option '%.80s'; did you mean --%s?", command,
			argument, nearest);
	return error_set(e, ERR_USAGE, "'assay %s' has no option '%.80s'; 'assay %s --help' lists them", command,
		argument, command);
}

static int unknown_command(const char *name, struct error *e)
{
	if (name[0] == '-')
		return error_set(e, ERR_USAGE,
			"expected a command before '%.80s': assay COMMAND [options]; 'assay --help' lists them", name);
	const char *nearest = nearest_command(name);
	if (nearest)
		return error_set(e, ERR_USAGE, "'%.80s' is not a command; did you mean '%s'?", name, nearest);
	return error_set(e, ERR_USAGE, "'%.80s' is not a command; 'assay --help' lists them", name);
}

/* ---- Values ---- */

static int bad_value(const struct option_row *row, const char *value, const char *expected, struct error *e)
{
	return error_set(e, ERR_USAGE, "--%s: '%.80s', expected %s", row->name, value, expected);
}

static int set_int(const struct option_row *row, const char *value, int *out, struct error *e)
{
	uint64_t number = 0;
	char expected[64];
	snprintf(expected, sizeof(expected), "a whole number from %.0f to %.0f", row->low, row->high);
	if (!option_parse_uint(value, &number) || (double)number < row->low || (double)number > row->high)
		return bad_value(row, value, expected, e);
	*out = (int)number;
	return 0;
}

static int set_number(const struct option_row *row, const char *value, double *out, struct error *e)
{
	char expected[64];
	snprintf(expected, sizeof(expected), "a number from %g to %g", row->low, row->high);
	if (!option_parse_number(value, out) || *out < row->low || *out > row->high)
		return bad_value(row, value, expected, e);
	return 0;
}

static int set_limit(const struct option_row *row, const char *value, struct options *o, struct error *e)
{
	double limit = 0;
	if (!option_parse_number(value, &limit) || limit <= 0)
		return bad_value(row, value, "a number of items, or a fraction between 0 and 1", e);
	o->limit = limit;
	o->note[0] = '\0';
	if (limit >= 1 && strchr(value, '.')) {
		bool one = limit < 2;
		snprintf(o->note, sizeof(o->note),
			"--limit %.20s means the first %.0f item%s of each suite; a fraction is below 1", value,
			one ? 1.0 : __builtin_floor(limit), one ? "" : "s");
	}
	return 0;
}

static int set_choice(const struct option_row *row, const char *value, int *index, struct error *e)
{
	char expected[128] = "";
	for (int i = 0; row->choices[i]; i++) {
		if (strcmp(value, row->choices[i]) == 0) {
			*index = i;
			return 0;
		}
		size_t used = strlen(expected);
		snprintf(expected + used, sizeof(expected) - used, "%s%s", i ? ", " : "one of ", row->choices[i]);
	}
	return bad_value(row, value, expected, e);
}

static int add_to_list(const struct option_row *row, const char *value, struct options *o, struct error *e)
{
	const char **list = (const char **)((char *)o + row->member);
	int *count = (int *)((char *)o + row->count);
	if (!*value)
		return bad_value(row, value, "a text that is not empty", e);
	for (int i = 0; i < *count; i++)
		if (strcmp(list[i], value) == 0)
			return error_set(e, ERR_USAGE, "--%s: '%.80s' is given twice", row->name, value);
	if (*count == CLI_MAX_LIST)
		return error_set(e, ERR_USAGE, "--%s: more than %d values", row->name, CLI_MAX_LIST);
	list[(*count)++] = value;
	return 0;
}

/* A suite's name is lower case in any spelling; a file's name (it has a '/' or a '.') stays as it is. */
static void lower_name(char *name)
{
	if (strpbrk(name, "/."))
		return;
	for (; *name; name++)
		if (*name >= 'A' && *name <= 'Z')
			*name = (char)(*name - 'A' + 'a');
}

static int add_names(struct parser *p, const struct option_row *row, const char *value, struct error *e)
{
	for (const char *start = value;; start += strcspn(start, ",") + 1) {
		size_t length = strcspn(start, ",");
		char *name = p->storage_end;
		memcpy(name, start, length);
		name[length] = '\0';
		p->storage_end += length + 1;
		if (!length)
			return bad_value(row, value, "names separated by commas", e);
		lower_name(name);
		TRY(add_to_list(row, name, p->o, e));
		if (!start[length])
			return 0;
	}
}

static int set_value(struct parser *p, const struct option_row *row, const char *value, struct error *e)
{
	void *member = (char *)p->o + row->member;
	int index = 0;
	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)member = true;
		return 0;
	case OPTION_TEXT:
		if (!*value && row->member != offsetof(struct options, prompt))
			return bad_value(row, value, "a text that is not empty", e);
		*(const char **)member = value;
		return 0;
	case OPTION_CHOICE:
		TRY(set_choice(row, value, &index, e));
		*(const char **)member = row->choices[index];
		return 0;
	case OPTION_COLOR:
		TRY(set_choice(row, value, &index, e));
		*(enum color_mode *)member = (enum color_mode)index;
		return 0;
	case OPTION_LIST:
		return add_to_list(row, value, p->o, e);
	case OPTION_NAMES:
		return add_names(p, row, value, e);
	case OPTION_INT:
		return set_int(row, value, member, e);
	case OPTION_SEED:
		if (!option_parse_uint(value, member))
			return bad_value(row, value, "a whole number of at most 64 bits", e);
		p->o->has_seed = true;
		return 0;
	case OPTION_SIZE:
		if (parse_size(value, member) < 0 || *(uint64_t *)member == 0)
			return bad_value(row, value, "bytes, or a number with KiB, MiB or GiB", e);
		return 0;
	case OPTION_LIMIT:
		return set_limit(row, value, p->o, e);
	case OPTION_NUMBER:
		break;
	}
	return set_number(row, value, member, e);
}

/* ---- Arguments ---- */

/* The value of an option that wants one: behind its '=', or the next argument, unless that is an option itself. */
static int take_value(
	struct parser *p, const struct option_row *row, const char *equals, const char **value, struct error *e)
{
	*value = NULL;
	if (equals) {
		*value = equals + 1;
		return row->value ? 0
				  : error_set(e, ERR_USAGE, "--%s takes no value, it has '%.80s'", row->name, *value);
	}
	if (!row->value)
		return 0;
	const char *next = p->next < p->argc ? p->argv[p->next] : NULL;
	bool is_option = next && strncmp(next, "--", 2) == 0 &&
		(!next[2] || find_option(EVERY, next + 2, strcspn(next + 2, "=")));
	if (next && is_option)
		return error_set(e, ERR_USAGE, "--%s: no value before '%s', expected %s (if it is the value: --%s=%s)",
			row->name, next, row->value, row->name, next);
	if (!next)
		return error_set(e, ERR_USAGE, "--%s: no value, expected %s", row->name, row->value);
	*value = next;
	p->next++;
	return 0;
}

static int parse_option(struct parser *p, const char *argument, struct error *e)
{
	const char *equals = NULL;
	const struct option_row *row = NULL;
	if (argument[1] == '-') {
		const char *name = argument + 2;
		size_t length = strcspn(name, "=");
		equals = name[length] ? name + length : NULL;
		row = find_option(p->command->bit, name, length);
	} else if (!argument[2]) {
		row = find_letter(p->command->bit, argument[1]);
	}
	if (!row)
		return unknown_option(p, argument, e);
	const char *value = NULL;
	TRY(take_value(p, row, equals, &value, e));
	return set_value(p, row, value, e);
}

static int add_argument(struct parser *p, const char *argument, struct error *e)
{
	struct options *o = p->o;
	if (o->n_arguments == p->command->max_arguments)
		return error_set(e, ERR_USAGE, "'assay %s': unexpected argument '%.80s', expected %s", p->command->name,
			argument, *p->command->arguments ? p->command->arguments : "options only");
	o->arguments[o->n_arguments++] = argument;
	return 0;
}

/* The first error is told; what follows it is read all the same, for the files that are to say that nothing was done. */
static int parse_arguments(struct parser *p, struct error *e)
{
	bool only_arguments = false;
	int status = 0;
	struct error later = {0};
	while (p->next < p->argc && !p->o->help) {
		const char *argument = p->argv[p->next++];
		struct error *told = status < 0 ? &later : e;
		int result = 0;
		if (only_arguments || argument[0] != '-' || !argument[1])
			result = add_argument(p, argument, told);
		else if (strcmp(argument, "--") == 0)
			only_arguments = true;
		else
			result = parse_option(p, argument, told);
		status = status < 0 ? status : result;
	}
	TRY(status);
	if (!p->o->help && p->o->n_arguments < p->command->min_arguments)
		return error_set(e, ERR_USAGE, "'assay %s': expected %s", p->command->name, p->command->arguments);
	return 0;
}

/* Room for the pieces of every argument: one NUL more than the text for each. */
static int make_storage(struct parser *p, struct error *e)
{
	size_t size = 1;
	for (int i = 0; i < p->argc; i++)
		size += strlen(p->argv[i]) + 1;
	p->o->text_storage = mem_calloc(size, 1, e);
	p->storage_end = p->o->text_storage;
	return p->o->text_storage ? 0 : ERR_MEMORY;
}

int options_parse(int argc, char **argv, struct options *o, struct error *e)
{
	*o = (struct options){.fewshot = -1, .top_p = 1};
	struct parser p = {.argc = argc, .argv = argv, .next = 2, .o = o};
	const char *first = argc > 1 ? argv[1] : NULL;
	if (!first)
		return error_set(
			e, ERR_USAGE, "expected a command: assay COMMAND [options]; 'assay --help' lists them");
	o->help = strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0;
	o->version = strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0;
	if (o->version || (o->help && argc < 3))
		return 0;
	if (o->help)
		first = argv[2];
	p.command = command_find(first);
	if (!p.command)
		return unknown_command(first, e);
	o->command = p.command->name;
	if (o->help)
		return 0;
	TRY(make_storage(&p, e));
	return parse_arguments(&p, e);
}

void options_free(struct options *o)
{
	free(o->text_storage);
	*o = (struct options){0};
}

/* ---- Help ---- */

static void help_of_option(const struct option_row *row, struct buf *out)
{
	char left[64];
	char letter[8] = "    ";
	if (row->letter)
		snprintf(letter, sizeof(letter), "-%c, ", row->letter);
	snprintf(left, sizeof(left), "  %s--%s%s%s", letter, row->name, row->value ? " " : "",
		row->value ? row->value : "");
	buf_printf(out, "%-28s %s\n", left, row->help);
}

void options_help(const char *command, struct buf *out)
{
	const struct command_row *c = command ? command_find(command) : NULL;
	if (!c) {
		buf_append_text(out,
			"usage: assay COMMAND [options]\n\n"
			"May a cheaper way of serving a language model ship? The same questions under every "
			"format.\n\n");
		for (c = command_table; c->name; c++)
			buf_printf(out, "  %-10s %s\n", c->name, c->summary);
		buf_append_text(out, "\n'assay COMMAND --help' says more. 'assay --version' prints the version.\n");
		return;
	}
	buf_printf(out, "usage: assay %s [options]%s%s\n\n%c%s.\n%s\n", c->name, *c->arguments ? " " : "", c->arguments,
		c->summary[0] - 'a' + 'A', c->summary + 1, c->detail);
	for (const struct option_row *row = option_table; row->name; row++)
		if (row->commands & c->bit)
			help_of_option(row, out);
}
