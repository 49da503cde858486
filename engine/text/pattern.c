#include "engine/text/pattern.h"

#include <stdint.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/base/buf.h"
#include "engine/text/onig_syntax.h"

/* Backtracking may cost at most this before an error: steps for each start, and memory of the compiled form and of the
 * interpreter, which serves where there is no just-in-time compiler. */
enum { MATCH_LIMIT = 10000000, STACK_START = 64 * 1024, STACK_LIMIT = 256 * 1024 * 1024, HEAP_LIMIT_KIB = 1024 * 1024 };

struct pattern {
	char *source;     /* as the file has it; owned */
	size_t length;    /* of source */
	pcre2_code *code; /* NULL: source is looked for as it stands */
};

struct pattern_scratch {
	pcre2_match_data *data;
	pcre2_match_context *context;
	pcre2_jit_stack *stack; /* NULL until the small one on the machine stack was not enough */
};

static int pattern_new(struct str source, struct pattern **out, struct error *e)
{
	struct pattern *p = mem_calloc(1, sizeof(*p), e);
	char *copy = mem_calloc(source.length + 1, 1, e);
	if (!p || !copy) {
		free(p);
		free(copy);
		return ERR_MEMORY;
	}
	if (source.length > 0)
		memcpy(copy, source.data, source.length);
	p->source = copy;
	p->length = source.length;
	*out = p;
	return 0;
}

int pattern_new_literal(struct str text, struct pattern **out, struct error *e)
{
	return pattern_new(text, out, e);
}

static int compile(struct pattern *p, struct str translated, const char *name, struct error *e)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	if (!context)
		return error_set(e, ERR_MEMORY, "out of memory: a pattern");
	/* The dot and the anchors depend on it, so the way the library was built must not decide. */
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	int code = 0;
	PCRE2_SIZE offset = 0;
	p->code = pcre2_compile((PCRE2_SPTR)translated.data, translated.length, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
		&code, &offset, context);
	pcre2_compile_context_free(context);
	if (!p->code) {
		PCRE2_UCHAR reason[256];
		pcre2_get_error_message(code, reason, sizeof(reason));
		struct str source = {p->source, p->length};
		return error_set(e, ERR_INPUT, "%s: pattern \"%.*s\": %s", name, STR_ARG(source), (const char *)reason);
	}
	/* Without a just-in-time compiler the interpreter finds the same, more slowly. */
	(void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
	return 0;
}

int pattern_new_regex(struct str source, const char *name, struct pattern **out, struct error *e)
{
	struct pattern *p = NULL;
	struct buf translated = {0};
	int status;
	TRY_CLEANUP(status, pattern_new(source, &p, e));
	TRY_CLEANUP(status, onig_to_pcre2(source, name, &translated, e));
	struct str text = {buf_text(&translated), translated.length};
	TRY_CLEANUP(status, compile(p, text, name, e));
	*out = p;
	p = NULL;

cleanup:
	buf_free(&translated);
	pattern_delete(p);
	return status;
}

void pattern_delete(struct pattern *p)
{
	if (!p)
		return;
	pcre2_code_free(p->code);
	free(p->source);
	free(p);
}

struct pattern_scratch *pattern_scratch_new(struct error *e)
{
	struct pattern_scratch *scratch = mem_calloc(1, sizeof(*scratch), e);
	if (!scratch)
		return NULL;
	scratch->data = pcre2_match_data_create(1, NULL); /* the whole match is all that is asked for */
	scratch->context = pcre2_match_context_create(NULL);
	if (!scratch->data || !scratch->context) {
		error_set(e, ERR_MEMORY, "out of memory: a pattern search");
		pattern_scratch_delete(scratch);
		return NULL;
	}
	pcre2_set_match_limit(scratch->context, MATCH_LIMIT);
	pcre2_set_heap_limit(scratch->context, HEAP_LIMIT_KIB);
	return scratch;
}

void pattern_scratch_delete(struct pattern_scratch *scratch)
{
	if (!scratch)
		return;
	pcre2_match_data_free(scratch->data);
	pcre2_match_context_free(scratch->context);
	pcre2_jit_stack_free(scratch->stack);
	free(scratch);
}

static int match_once(const struct pattern *p, struct pattern_scratch *scratch, struct str text, size_t from)
{
	return pcre2_match(
		p->code, (PCRE2_SPTR)text.data, text.length, from, PCRE2_NO_UTF_CHECK, scratch->data, scratch->context);
}

/* The first match at or after from: 1, 0 or an error. */
static int search_from(const struct pattern *p, struct pattern_scratch *scratch, struct str text, size_t from,
	struct pattern_match *match, struct error *e)
{
	struct str source = {p->source, p->length};
	if (!p->code) {
		match->start = str_find(text, source, from);
		match->end = match->start + source.length;
		return match->start != SIZE_MAX;
	}
	int status = match_once(p, scratch, text, from);
	if (status == PCRE2_ERROR_JIT_STACKLIMIT && !scratch->stack) {
		scratch->stack = pcre2_jit_stack_create(STACK_START, STACK_LIMIT, NULL);
		if (!scratch->stack)
			return error_set(e, ERR_MEMORY, "out of memory: a pattern search");
		pcre2_jit_stack_assign(scratch->context, NULL, scratch->stack);
		status = match_once(p, scratch, text, from);
	}
	if (status == PCRE2_ERROR_NOMATCH)
		return 0;
	if (status < 0) {
		PCRE2_UCHAR reason[256];
		pcre2_get_error_message(status, reason, sizeof(reason));
		return error_set(e, ERR_LIMIT, "pattern \"%.*s\" on a text of %zu bytes: %s", STR_ARG(source),
			text.length, (const char *)reason);
	}
	const PCRE2_SIZE *range = pcre2_get_ovector_pointer(scratch->data);
	*match = (struct pattern_match){range[0], range[1]};
	return 1;
}

/* The start of the character after the one at position. */
static size_t next_character(struct str text, size_t position)
{
	position++;
	while (position < text.length && ((unsigned char)text.data[position] & 0xc0) == 0x80)
		position++;
	return position;
}

int pattern_next(const struct pattern *p, struct pattern_scratch *scratch, struct pattern_search *search,
	struct pattern_match *match, struct error *e)
{
	while (search->from <= search->text.length) {
		int found = search_from(p, scratch, search->text, search->from, match, e);
		if (found <= 0)
			return found;
		search->from = match->end;
		if (match->start == match->end && match->end == search->last_end) {
			search->from = next_character(search->text, search->from);
			continue;
		}
		search->last_end = match->end;
		return 1;
	}
	return 0;
}
