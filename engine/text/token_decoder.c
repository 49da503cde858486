#include "engine/text/token_decoder.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"
#include "engine/text/byte_level.h"
#include "engine/text/field.h"
#include "engine/text/pattern.h"

enum part_kind { PART_BYTE_LEVEL, PART_REPLACE, PART_BYTE_FALLBACK, PART_FUSE, PART_STRIP, PART_METASPACE };

struct part {
	enum part_kind kind;
	struct pattern *pattern; /* PART_REPLACE; owned */
	struct buf content;      /* PART_REPLACE; one character for PART_STRIP and PART_METASPACE */
	int64_t start, stop;     /* PART_STRIP: at most so many at each end */
	bool drops_first;        /* PART_METASPACE: the mark of the first token is no space */
};

struct token_decoder {
	bool joins_with_spaces; /* there is no decoder */
	struct part *parts;
	size_t count, capacity;
};

static const char known_types[] = "Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace";

/* ---- From JSON ---- */

static struct part *add_part(struct token_decoder *d, enum part_kind kind, struct error *e)
{
	if (d->count == d->capacity) {
		size_t capacity = d->capacity ? d->capacity * 2 : 4;
		struct part *parts = realloc(d->parts, capacity * sizeof(*parts));
		if (!parts) {
			error_set(e, ERR_MEMORY, "out of memory: a decoder of %zu parts", capacity);
			return NULL;
		}
		d->parts = parts;
		d->capacity = capacity;
	}
	struct part *part = &d->parts[d->count++];
	*part = (struct part){.kind = kind};
	return part;
}

static int set_content(struct part *part, struct str content, struct error *e)
{
	buf_append_str(&part->content, content);
	return buf_check(&part->content, e);
}

static int add_replace(struct token_decoder *d, const struct json *spec, struct error *e)
{
	static const char where[] = "decoder Replace";
	struct str content;
	TRY(field_text(spec, "content", where, &content, e));
	struct part *part = add_part(d, PART_REPLACE, e);
	if (!part)
		return ERR_MEMORY;
	TRY(set_content(part, content, e));
	return field_pattern(spec, where, &part->pattern, e);
}

static int add_strip(struct token_decoder *d, const struct json *spec, struct error *e)
{
	static const char where[] = "decoder Strip";
	struct str content;
	TRY(field_character(spec, "content", where, &content, e));
	struct part *part = add_part(d, PART_STRIP, e);
	if (!part)
		return ERR_MEMORY;
	TRY(field_int(spec, "start", where, INT32_MAX, &part->start, e));
	TRY(field_int(spec, "stop", where, INT32_MAX, &part->stop, e));
	return set_content(part, content, e);
}

static int add_metaspace(struct token_decoder *d, const struct json *spec, struct error *e)
{
	static const char where[] = "decoder Metaspace";
	struct str mark;
	bool prefix;
	TRY(field_character(spec, "replacement", where, &mark, e));
	TRY(field_bool_or(spec, "add_prefix_space", where, true, &prefix, e));
	struct part *part = add_part(d, PART_METASPACE, e);
	if (!part)
		return ERR_MEMORY;
	const struct json *scheme = json_get(spec, "prepend_scheme");
	part->drops_first = prefix && !(json_is(scheme, JSON_STRING) && str_is(scheme->text, "never"));
	return set_content(part, mark, e);
}

static int add_spec(struct token_decoder *d, const struct json *spec, struct error *e)
{
	const struct json *type = json_get(spec, "type");
	if (!json_is(type, JSON_STRING))
		return field_refuse_type(spec, "decoder", known_types, e);
	if (str_is(type->text, "Sequence")) {
		const struct json *parts;
		TRY(field_array(spec, "decoders", "decoder Sequence", &parts, e));
		JSON_EACH (part, parts)
			TRY(add_spec(d, part, e));
		return 0;
	}
	if (str_is(type->text, "ByteLevel"))
		return add_part(d, PART_BYTE_LEVEL, e) ? 0 : ERR_MEMORY;
	if (str_is(type->text, "ByteFallback"))
		return add_part(d, PART_BYTE_FALLBACK, e) ? 0 : ERR_MEMORY;
	if (str_is(type->text, "Fuse"))
		return add_part(d, PART_FUSE, e) ? 0 : ERR_MEMORY;
	if (str_is(type->text, "Replace"))
		return add_replace(d, spec, e);
	if (str_is(type->text, "Strip"))
		return add_strip(d, spec, e);
	if (str_is(type->text, "Metaspace"))
		return add_metaspace(d, spec, e);
	return field_refuse_type(spec, "decoder", known_types, e);
}

int token_decoder_new(const struct json *spec, struct token_decoder **out, struct error *e)
{
	struct token_decoder *d = mem_calloc(1, sizeof(*d), e);
	if (!d)
		return ERR_MEMORY;
	d->joins_with_spaces = !spec || json_is(spec, JSON_NULL);
	int status = d->joins_with_spaces ? 0 : add_spec(d, spec, e);
	if (status < 0) {
		token_decoder_delete(d);
		return status;
	}
	*out = d;
	return 0;
}

void token_decoder_delete(struct token_decoder *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->count; i++) {
		pattern_delete(d->parts[i].pattern);
		buf_free(&d->parts[i].content);
	}
	free(d->parts);
	free(d);
}

/* ---- Spellings ---- */

/* The token ends here. */
static void spellings_end(struct spellings *s)
{
	if (s->count == s->capacity) {
		size_t capacity = s->capacity ? s->capacity * 2 : 64;
		size_t *ends = realloc(s->ends, capacity * sizeof(*ends));
		if (!ends) {
			s->failed = true;
			return;
		}
		s->ends = ends;
		s->capacity = capacity;
	}
	s->ends[s->count++] = s->text.length;
}

void spellings_add(struct spellings *s, struct str token)
{
	buf_append_str(&s->text, token);
	spellings_end(s);
}

void spellings_free(struct spellings *s)
{
	buf_free(&s->text);
	free(s->ends);
	memset(s, 0, sizeof(*s));
}

static struct str spelling(const struct spellings *s, size_t i)
{
	size_t start = i > 0 ? s->ends[i - 1] : 0;
	return s->ends[i] > start ? (struct str){s->text.data + start, s->ends[i] - start} : (struct str){"", 0};
}

/* ---- The parts ---- */

static void replace(const struct part *part, struct pattern_scratch *scratch, struct str token, struct buf *out)
{
	struct pattern_search search = pattern_search_begin(token);
	struct pattern_match match;
	size_t done = 0;
	while (pattern_next(part->pattern, scratch, &search, &match, NULL) > 0) {
		buf_append(out, token.data + done, match.start - done);
		buf_append_str(out, buf_str(&part->content));
		done = match.end;
	}
	buf_append(out, token.data + done, token.length - done);
}

/* The byte of "<0xNN>", -1 for any other token. Rust's number reader, which the reference uses, takes a plus sign
 * too. */
static int fallback_byte(struct str token)
{
	if (token.length != 6 || memcmp(token.data, "<0x", 3) != 0 || token.data[5] != '>')
		return -1;
	int value = 0;
	for (size_t i = token.data[3] == '+' ? 4 : 3; i < 5; i++) {
		static const char digits[] = "0123456789abcdef0123456789ABCDEF";
		const char *digit = token.data[i] ? strchr(digits, token.data[i]) : NULL;
		if (!digit)
			return -1;
		value = value * 16 + (int)(digit - digits) % 16;
	}
	return value;
}

/* Ends a run of fallback bytes: one text where they are UTF-8, one U+FFFD for each where they are not. */
static void flush_bytes(struct buf *bytes, struct spellings *out)
{
	if (bytes->length > 0 && utf8_valid(buf_str(bytes))) {
		spellings_add(out, buf_str(bytes));
	} else {
		for (size_t i = 0; i < bytes->length; i++)
			spellings_add(out, str_of("\xef\xbf\xbd"));
	}
	buf_clear(bytes);
}

static void run_byte_fallback(const struct spellings *in, struct spellings *out)
{
	struct buf bytes = {0};
	for (size_t i = 0; i < in->count; i++) {
		struct str token = spelling(in, i);
		int byte = fallback_byte(token);
		if (byte >= 0) {
			buf_append_char(&bytes, (char)byte);
			continue;
		}
		flush_bytes(&bytes, out);
		spellings_add(out, token);
	}
	flush_bytes(&bytes, out);
	buf_free(&bytes);
}

static void run_byte_level(const struct spellings *in, struct spellings *out)
{
	struct buf bytes = {0};
	for (size_t i = 0; i < in->count; i++)
		byte_level_decode(spelling(in, i), &bytes);
	utf8_append_lossy(&out->text, buf_str(&bytes));
	spellings_end(out);
	out->failed = out->failed || bytes.failed;
	buf_free(&bytes);
}

static struct str strip(const struct part *part, struct str token)
{
	struct str content = buf_str(&part->content);
	for (int64_t i = 0; i < part->start && str_starts_with(token, content); i++)
		token = (struct str){token.data + content.length, token.length - content.length};
	for (int64_t i = 0; i < part->stop && token.length >= content.length; i++) {
		struct str end = {token.data + token.length - content.length, content.length};
		if (!str_equal(end, content))
			break;
		token.length -= content.length;
	}
	return token;
}

static void write_spaces(const struct part *part, struct str token, bool drop, struct buf *out)
{
	struct str mark = buf_str(&part->content);
	size_t done = 0;
	for (size_t at; (at = str_find(token, mark, done)) != (size_t)-1; done = at + mark.length) {
		buf_append(out, token.data + done, at - done);
		if (!drop)
			buf_append_char(out, ' ');
	}
	buf_append(out, token.data + done, token.length - done);
}

static void run_part(
	const struct part *part, struct pattern_scratch *scratch, const struct spellings *in, struct spellings *out)
{
	if (part->kind == PART_BYTE_LEVEL) {
		run_byte_level(in, out);
		return;
	}
	if (part->kind == PART_BYTE_FALLBACK) {
		run_byte_fallback(in, out);
		return;
	}
	if (part->kind == PART_FUSE) {
		spellings_add(out, buf_str(&in->text));
		return;
	}
	for (size_t i = 0; i < in->count; i++) {
		struct str token = spelling(in, i);
		if (part->kind == PART_REPLACE)
			replace(part, scratch, token, &out->text);
		else if (part->kind == PART_STRIP)
			buf_append_str(&out->text, strip(part, token));
		else
			write_spaces(part, token, part->drops_first && i == 0, &out->text);
		spellings_end(out);
	}
}

static void join_with_spaces(const struct spellings *tokens, struct buf *out)
{
	for (size_t i = 0; i < tokens->count; i++) {
		if (i > 0)
			buf_append_char(out, ' ');
		buf_append_str(out, spelling(tokens, i));
	}
}

void token_decoder_text(const struct token_decoder *d, struct spellings *tokens, struct buf *out)
{
	struct pattern_scratch *scratch = pattern_scratch_new(NULL);
	struct spellings next = {0};
	for (size_t i = 0; scratch && i < d->count; i++) {
		next.count = 0;
		buf_clear(&next.text);
		run_part(&d->parts[i], scratch, tokens, &next);
		struct spellings done = *tokens;
		*tokens = next;
		next = done;
	}
	if (d->joins_with_spaces)
		join_with_spaces(tokens, out);
	else
		buf_append_str(out, buf_str(&tokens->text));
	out->failed =
		out->failed || !scratch || tokens->failed || next.failed || tokens->text.failed || next.text.failed;
	spellings_free(&next);
	pattern_scratch_delete(scratch);
}

static void part_bytes(const struct part *part, struct pattern_scratch *scratch, struct str token, struct buf *out)
{
	int byte;
	switch (part->kind) {
	case PART_BYTE_LEVEL:
		byte_level_decode(token, out);
		break;
	case PART_BYTE_FALLBACK:
		byte = fallback_byte(token);
		if (byte >= 0)
			buf_append_char(out, (char)byte);
		else
			buf_append_str(out, token);
		break;
	case PART_REPLACE:
		replace(part, scratch, token, out);
		break;
	case PART_METASPACE:
		write_spaces(part, token, false, out);
		break;
	case PART_FUSE:
	case PART_STRIP:
		buf_append_str(out, token);
		break;
	}
}

void token_decoder_bytes(const struct token_decoder *d, struct str token, struct buf *out)
{
	if (d->count == 1 && d->parts[0].kind == PART_BYTE_LEVEL) {
		byte_level_decode(token, out);
		return;
	}
	struct pattern_scratch *scratch = pattern_scratch_new(NULL);
	struct buf texts[2] = {{0}, {0}};
	for (size_t i = 0; scratch && i < d->count; i++) {
		struct buf *next = &texts[i % 2];
		buf_clear(next);
		part_bytes(&d->parts[i], scratch, token, next);
		token = buf_str(next);
	}
	buf_append_str(out, token);
	out->failed = out->failed || !scratch || texts[0].failed || texts[1].failed;
	buf_free(&texts[0]);
	buf_free(&texts[1]);
	pattern_scratch_delete(scratch);
}
