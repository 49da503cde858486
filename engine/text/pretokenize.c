#include "engine/text/pretokenize.h"

#include <stdlib.h>
#include <string.h>

#include "engine/text/byte_level.h"
#include "engine/text/field.h"
#include "engine/text/pattern.h"

enum stage_kind {
	STAGE_SPLIT,  /* cuts at the matches of a pattern */
	STAGE_PREFIX, /* puts a space before a piece that has none */
	STAGE_BYTES,  /* writes bytes as the characters that stand for them */
	STAGE_SPACES, /* Metaspace: writes spaces as its mark, and one before the piece */
};

/* What becomes of the matches. */
enum behavior { ISOLATED, REMOVED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };

enum prepend_scheme { PREPEND_ALWAYS, PREPEND_FIRST, PREPEND_NEVER };

struct stage {
	enum stage_kind kind;
	struct pattern *pattern; /* STAGE_SPLIT; owned */
	enum behavior behavior;
	bool invert;     /* the matches are what stands between the matches */
	struct buf mark; /* STAGE_SPACES: one character */
	enum prepend_scheme scheme;
};

struct pretokenizer {
	struct stage *stages;
	size_t count;
	size_t capacity;
};

static const char known_types[] =
	"Sequence, Split, Digits, ByteLevel, Metaspace, Whitespace, WhitespaceSplit, Punctuation";

static const char gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* \w as Rust's regex has it; see unicode_is_word. */
static const char words_pattern[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]+|[^\\p{Alphabetic}\\p{M}"
				    "\\p{Nd}\\p{Pc}\\p{Join_Control}\\s]+";

/* ---- From JSON ---- */

static struct stage *add_stage(struct pretokenizer *p, enum stage_kind kind, struct error *e)
{
	if (p->count == p->capacity) {
		size_t capacity = p->capacity ? p->capacity * 2 : 4;
		struct stage *stages = realloc(p->stages, capacity * sizeof(*stages));
		if (!stages) {
			error_set(e, ERR_MEMORY, "out of memory: a pre_tokenizer of %zu parts", capacity);
			return NULL;
		}
		p->stages = stages;
		p->capacity = capacity;
	}
	struct stage *stage = &p->stages[p->count++];
	*stage = (struct stage){.kind = kind};
	return stage;
}

static int add_regex(struct pretokenizer *p, const char *regex, enum behavior behavior, bool invert, struct error *e)
{
	struct stage *stage = add_stage(p, STAGE_SPLIT, e);
	if (!stage)
		return ERR_MEMORY;
	stage->behavior = behavior;
	stage->invert = invert;
	return pattern_new_regex(str_of(regex), "pre_tokenizer", &stage->pattern, e);
}

static int read_behavior(const struct json *spec, const char *where, enum behavior *out, struct error *e)
{
	static const char *const names[] = {
		"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
	struct str name;
	TRY(field_text(spec, "behavior", where, &name, e));
	for (int i = 0; i <= CONTIGUOUS; i++) {
		if (str_is(name, names[i])) {
			*out = (enum behavior)i;
			return 0;
		}
	}
	return error_set(e, ERR_INPUT,
		"%s: \"behavior\" is \"%.*s\", expected Isolated, Removed, MergedWithPrevious, MergedWithNext or "
		"Contiguous",
		where, STR_ARG(name));
}

static int add_split(struct pretokenizer *p, const struct json *spec, struct error *e)
{
	static const char where[] = "pre_tokenizer Split";
	struct stage *stage = add_stage(p, STAGE_SPLIT, e);
	if (!stage)
		return ERR_MEMORY;
	TRY(read_behavior(spec, where, &stage->behavior, e));
	TRY(field_bool(spec, "invert", where, &stage->invert, e));
	return field_pattern(spec, where, &stage->pattern, e);
}

static int add_byte_level(struct pretokenizer *p, const struct json *spec, struct error *e)
{
	static const char where[] = "pre_tokenizer ByteLevel";
	bool prefix, use_regex;
	TRY(field_bool(spec, "add_prefix_space", where, &prefix, e));
	TRY(field_bool_or(spec, "use_regex", where, true, &use_regex, e));
	if (prefix && !add_stage(p, STAGE_PREFIX, e))
		return ERR_MEMORY;
	if (use_regex)
		TRY(add_regex(p, gpt2_pattern, ISOLATED, false, e));
	return add_stage(p, STAGE_BYTES, e) ? 0 : ERR_MEMORY;
}

/* The old form has add_prefix_space alone; both together must agree. */
static int read_scheme(const struct json *spec, const char *where, enum prepend_scheme *out, struct error *e)
{
	static const char *const names[] = {"always", "first", "never"};
	bool prefix;
	TRY(field_bool_or(spec, "add_prefix_space", where, true, &prefix, e));
	*out = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
	if (!json_get(spec, "prepend_scheme"))
		return 0;
	struct str name;
	TRY(field_text(spec, "prepend_scheme", where, &name, e));
	for (int i = 0; i <= PREPEND_NEVER; i++) {
		if (!str_is(name, names[i]))
			continue;
		*out = (enum prepend_scheme)i;
		if (!prefix && *out != PREPEND_NEVER)
			return error_set(e, ERR_INPUT,
				"%s: \"add_prefix_space\" is false, but \"prepend_scheme\" is \"%s\"", where, names[i]);
		return 0;
	}
	return error_set(e, ERR_INPUT, "%s: \"prepend_scheme\" is \"%.*s\", expected always, first or never", where,
		STR_ARG(name));
}

static int add_metaspace(struct pretokenizer *p, const struct json *spec, struct error *e)
{
	static const char where[] = "pre_tokenizer Metaspace";
	struct str mark;
	bool split;
	enum prepend_scheme scheme;
	TRY(field_character(spec, "replacement", where, &mark, e));
	TRY(field_bool_or(spec, "split", where, true, &split, e));
	TRY(read_scheme(spec, where, &scheme, e));
	struct stage *stage = add_stage(p, STAGE_SPACES, e);
	if (!stage)
		return ERR_MEMORY;
	stage->scheme = scheme;
	buf_append_str(&stage->mark, mark);
	TRY(buf_check(&stage->mark, e));
	if (!split)
		return 0;
	stage = add_stage(p, STAGE_SPLIT, e);
	if (!stage)
		return ERR_MEMORY;
	stage->behavior = MERGED_WITH_NEXT;
	return pattern_new_literal(mark, &stage->pattern, e);
}

static int add_digits(struct pretokenizer *p, const struct json *spec, struct error *e)
{
	bool individual;
	TRY(field_bool(spec, "individual_digits", "pre_tokenizer Digits", &individual, e));
	return add_regex(p, "\\p{N}", individual ? ISOLATED : CONTIGUOUS, false, e);
}

static int add_punctuation(struct pretokenizer *p, const struct json *spec, struct error *e)
{
	enum behavior behavior = ISOLATED;
	if (json_get(spec, "behavior"))
		TRY(read_behavior(spec, "pre_tokenizer Punctuation", &behavior, e));
	return add_regex(p, "[!-/:-@\\[-`{-~\\p{P}]", behavior, false, e);
}

static int add_spec(struct pretokenizer *p, const struct json *spec, struct error *e)
{
	const struct json *type = json_get(spec, "type");
	if (!json_is(type, JSON_STRING))
		return field_refuse_type(spec, "pre_tokenizer", known_types, e);
	if (str_is(type->text, "Sequence")) {
		const struct json *parts;
		TRY(field_array(spec, "pretokenizers", "pre_tokenizer Sequence", &parts, e));
		JSON_EACH (part, parts)
			TRY(add_spec(p, part, e));
		return 0;
	}
	if (str_is(type->text, "Split"))
		return add_split(p, spec, e);
	if (str_is(type->text, "ByteLevel"))
		return add_byte_level(p, spec, e);
	if (str_is(type->text, "Metaspace"))
		return add_metaspace(p, spec, e);
	if (str_is(type->text, "Digits"))
		return add_digits(p, spec, e);
	if (str_is(type->text, "Punctuation"))
		return add_punctuation(p, spec, e);
	if (str_is(type->text, "WhitespaceSplit"))
		return add_regex(p, "\\s", REMOVED, false, e);
	if (str_is(type->text, "Whitespace"))
		return add_regex(p, words_pattern, REMOVED, true, e);
	return field_refuse_type(spec, "pre_tokenizer", known_types, e);
}

int pretokenizer_new(const struct json *spec, struct pretokenizer **out, struct error *e)
{
	*out = NULL;
	if (!spec || json_is(spec, JSON_NULL))
		return 0;
	struct pretokenizer *p = mem_calloc(1, sizeof(*p), e);
	if (!p)
		return ERR_MEMORY;
	int status = add_spec(p, spec, e);
	if (status < 0 || p->count == 0) {
		pretokenizer_delete(p);
		return status;
	}
	*out = p;
	return 0;
}

void pretokenizer_delete(struct pretokenizer *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->count; i++) {
		pattern_delete(p->stages[i].pattern);
		buf_free(&p->stages[i].mark);
	}
	free(p->stages);
	free(p);
}

void pretokenize_scratch_free(struct pretokenize_scratch *s)
{
	pieces_free(&s->spare);
	buf_free(&s->texts[0]);
	buf_free(&s->texts[1]);
	memset(s, 0, sizeof(*s));
}

/* ---- Cutting ---- */

/* The parts of one piece as they come out of a search, matches and what lies between them, put together as the
 * behaviour says. */
struct cutter {
	enum behavior behavior;
	const struct piece *whole;
	struct pieces *out;
	size_t base;       /* the parts of this piece begin here in *out */
	bool last_matched; /* the part before this one was a match */
	bool held;         /* MERGED_WITH_NEXT: a match waits for what follows it */
	size_t held_start, held_end;
	bool has_empty;
};

static int cutter_push(struct cutter *c, size_t start, size_t end, struct error *e)
{
	c->has_empty = c->has_empty || start == end;
	return pieces_push(c->out, piece_part(c->whole, start, end), e);
}

/* Lets the last part reach up to end; a first part has none before it and stands for itself. */
static int cutter_extend(struct cutter *c, size_t start, size_t end, struct error *e)
{
	if (c->out->count == c->base)
		return cutter_push(c, start, end, e);
	struct piece *last = &c->out->list[c->out->count - 1];
	last->length = c->whole->start + (uint32_t)end - last->start;
	return 0;
}

static int cut_merged_with_next(struct cutter *c, size_t start, size_t end, bool match, struct error *e)
{
	if (!match) {
		size_t from = c->held ? c->held_start : start;
		c->held = false;
		return cutter_push(c, from, end, e);
	}
	if (c->held)
		TRY(cutter_push(c, c->held_start, c->held_end, e));
	c->held = true;
	c->held_start = start;
	c->held_end = end;
	return 0;
}

static int cut(struct cutter *c, size_t start, size_t end, bool match, struct error *e)
{
	bool last_matched = c->last_matched;
	c->last_matched = match;
	switch (c->behavior) {
	case REMOVED:
		return match ? 0 : cutter_push(c, start, end, e);
	case CONTIGUOUS:
		return match == last_matched ? cutter_extend(c, start, end, e) : cutter_push(c, start, end, e);
	case MERGED_WITH_PREVIOUS:
		return match && !last_matched ? cutter_extend(c, start, end, e) : cutter_push(c, start, end, e);
	case MERGED_WITH_NEXT:
		return cut_merged_with_next(c, start, end, match, e);
	case ISOLATED:
		break;
	}
	return cutter_push(c, start, end, e);
}

static int cut_end(struct cutter *c, struct error *e)
{
	if (c->held)
		TRY(cutter_push(c, c->held_start, c->held_end, e));
	if (!c->has_empty)
		return 0;
	size_t kept = c->base;
	for (size_t i = c->base; i < c->out->count; i++) {
		if (c->out->list[i].length > 0)
			c->out->list[kept++] = c->out->list[i];
	}
	c->out->count = kept;
	return 0;
}

static int split_piece(const struct stage *stage, struct pattern_scratch *scratch, struct str text,
	const struct piece *whole, struct pieces *out, struct error *e)
{
	struct cutter c = {.behavior = stage->behavior, .whole = whole, .out = out, .base = out->count};
	struct pattern_search search = pattern_search_begin(text);
	struct pattern_match match;
	size_t done = 0;
	int found;
	while ((found = pattern_next(stage->pattern, scratch, &search, &match, e)) > 0) {
		if (done < match.start)
			TRY(cut(&c, done, match.start, stage->invert, e));
		TRY(cut(&c, match.start, match.end, !stage->invert, e));
		done = match.end;
	}
	TRY(found);
	if (done < text.length)
		TRY(cut(&c, done, text.length, stage->invert, e));
	return cut_end(&c, e);
}

static int run_split(const struct stage *stage, struct pretokenize_scratch *s, const struct pieces *in,
	struct pieces *out, struct error *e)
{
	out->text = in->text;
	for (size_t i = 0; i < in->count; i++) {
		const struct piece *piece = &in->list[i];
		if (piece->id != PIECE_TEXT)
			TRY(pieces_push(out, *piece, e));
		else
			TRY(split_piece(stage, s->pattern, piece_text(in, piece), piece, out, e));
	}
	return 0;
}

/* ---- Rewriting ---- */

static void write_spaces(const struct stage *stage, struct str text, bool first, struct buf *out)
{
	struct str mark = buf_str(&stage->mark);
	bool prepend = stage->scheme == PREPEND_ALWAYS || (stage->scheme == PREPEND_FIRST && first);
	if (prepend && text.data[0] != ' ' && !str_starts_with(text, mark))
		buf_append_str(out, mark);
	size_t done = 0;
	for (size_t i = 0; i < text.length; i++) {
		if (text.data[i] != ' ')
			continue;
		buf_append(out, text.data + done, i - done);
		buf_append_str(out, mark);
		done = i + 1;
	}
	buf_append(out, text.data + done, text.length - done);
}

static void rewrite_piece(const struct stage *stage, struct str text, bool first, struct buf *out)
{
	switch (stage->kind) {
	case STAGE_PREFIX:
		if (text.data[0] != ' ')
			buf_append_char(out, ' ');
		buf_append_str(out, text);
		break;
	case STAGE_BYTES:
		byte_level_encode(text, out);
		break;
	case STAGE_SPACES:
		write_spaces(stage, text, first, out);
		break;
	case STAGE_SPLIT:
		break;
	}
}

static int run_rewrite(const struct stage *stage, struct pretokenize_scratch *s, const struct pieces *in,
	struct pieces *out, struct error *e)
{
	struct buf *text = &s->texts[s->next_text];
	s->next_text = !s->next_text;
	buf_clear(text);
	for (size_t i = 0; i < in->count; i++) {
		struct piece piece = in->list[i];
		if (piece.id == PIECE_TEXT) {
			size_t start = text->length;
			rewrite_piece(stage, piece_text(in, &piece), piece.first, text);
			if (text->length > UINT32_MAX)
				return error_set(e, ERR_LIMIT, "pre_tokenizer: a text grows beyond 4 GiB");
			piece.start = (uint32_t)start;
			piece.length = (uint32_t)(text->length - start);
		}
		TRY(pieces_push(out, piece, e));
	}
	out->text = buf_str(text);
	return buf_check(text, e);
}

int pretokenizer_run(
	const struct pretokenizer *p, struct pretokenize_scratch *s, struct pieces *pieces, struct error *e)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct stage *stage = &p->stages[i];
		s->spare.count = 0;
		if (stage->kind == STAGE_SPLIT)
			TRY(run_split(stage, s, pieces, &s->spare, e));
		else
			TRY(run_rewrite(stage, s, pieces, &s->spare, e));
		struct pieces done = *pieces;
		*pieces = s->spare;
		s->spare = done;
	}
	return 0;
}
