#include "evals/regex.h"

#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct regex {
	pcre2_code *code;
	pcre2_match_data *match;
	int n_groups;
};

static int pattern_compile(const char *pattern, pcre2_code **out, struct error *e)
{
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	if (!context)
		return error_set(e, ERR_MEMORY, "out of memory for pattern \"%s\"", pattern);
	/* How PCRE2 was built decides its default line end; Python knows one. */
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	int number;
	PCRE2_SIZE place;
	*out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_MATCH_INVALID_UTF, &number,
		&place, context);
	pcre2_compile_context_free(context);
	if (*out)
		return 0;
	char text[256];
	pcre2_get_error_message(number, (PCRE2_UCHAR *)text, sizeof(text));
	return error_set(e, ERR_INPUT, "pattern \"%s\": %s at offset %zu", pattern, text, (size_t)place);
}

int regex_new(const char *pattern, struct regex **out, struct error *e)
{
	struct regex *r = mem_calloc(1, sizeof(*r), e);
	if (!r)
		return ERR_MEMORY;
	int status = pattern_compile(pattern, &r->code, e);
	if (status == 0) {
		r->match = pcre2_match_data_create_from_pattern(r->code, NULL);
		if (!r->match)
			status = error_set(e, ERR_MEMORY, "out of memory for pattern \"%s\"", pattern);
	}
	if (status < 0) {
		regex_delete(r);
		return status;
	}
	uint32_t groups = 0;
	pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &groups);
	r->n_groups = (int)groups;
	*out = r;
	return 0;
}

void regex_delete(struct regex *r)
{
	if (!r)
		return;
	pcre2_match_data_free(r->match);
	pcre2_code_free(r->code);
	free(r);
}

int regex_next(struct regex *r, struct str subject, struct regex_cursor *c, struct error *e)
{
	const char *data = subject.data ? subject.data : "";
	uint32_t options = c->empty_match ? PCRE2_NOTEMPTY_ATSTART : 0;
	int found = pcre2_match(r->code, (PCRE2_SPTR)data, subject.length, c->end, options, r->match, NULL);
	if (found == PCRE2_ERROR_NOMATCH)
		return 0;
	if (found < 0) {
		char text[256];
		pcre2_get_error_message(found, (PCRE2_UCHAR *)text, sizeof(text));
		return error_set(e, ERR_INPUT, "matching a text of %zu bytes: %s", subject.length, text);
	}
	const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(r->match);
	c->start = offsets[0];
	c->end = offsets[1];
	c->empty_match = c->start == c->end;
	return 1;
}

int regex_group_count(const struct regex *r)
{
	return r->n_groups;
}

struct str regex_group(const struct regex *r, struct str subject, int i)
{
	const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(r->match) + 2 * (size_t)i;
	if (offsets[0] == PCRE2_UNSET)
		return (struct str){0};
	return (struct str){subject.data + offsets[0], offsets[1] - offsets[0]};
}

int regex_remove(struct regex *r, struct str subject, struct buf *out, struct error *e)
{
	struct regex_cursor cursor = {0};
	size_t kept = 0;
	int found;
	while ((found = regex_next(r, subject, &cursor, e)) > 0) {
		buf_append(out, subject.data + kept, cursor.start - kept);
		kept = cursor.end;
	}
	TRY(found);
	if (subject.length > kept)
		buf_append(out, subject.data + kept, subject.length - kept);
	return buf_check(out, e);
}
