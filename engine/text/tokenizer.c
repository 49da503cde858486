#include "engine/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/utf8.h"
#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/normalize.h"
#include "engine/text/pattern.h"
#include "engine/text/post_processor.h"
#include "engine/text/pretokenize.h"
#include "engine/text/token_decoder.h"
#include "engine/text/tokenizer_json.h"
#include "engine/text/tokenizer_spec.h"
#include "engine/text/vocab.h"

/* A text may have so many bytes, and a normaliser may make it so much longer. */
enum { TEXT_MAX = 1 << 30, GROWTH_FACTOR = 64, GROWTH_FREE = 1 << 16 };

struct tokenizer {
	struct vocab vocab;
	struct bpe bpe;
	struct added_tokens plain;      /* looked for in the text as it comes */
	struct added_tokens normalized; /* looked for after the normaliser */
	struct pair_map forms;          /* id -> start, length in form_text: added tokens that the normaliser changes */
	struct buf form_text;
	struct normalizer *normalizer;     /* NULL: none */
	struct pretokenizer *pretokenizer; /* NULL: none */
	struct token_decoder *decoder;
	struct post_processor post;
	int32_t bos, eos;
	char fingerprint[SHA256_HEX_SIZE];
};

/* ---- Ids ---- */

int token_ids_push(struct token_ids *ids, int32_t id, struct error *e)
{
	if (ids->count == ids->capacity) {
		size_t capacity = ids->capacity ? ids->capacity * 2 : 64;
		int32_t *data = realloc(ids->data, capacity * sizeof(*data));
		if (!data)
			return error_set(e, ERR_MEMORY, "out of memory: %zu token ids", capacity);
		ids->data = data;
		ids->capacity = capacity;
	}
	ids->data[ids->count++] = id;
	return 0;
}

void token_ids_free(struct token_ids *ids)
{
	free(ids->data);
	memset(ids, 0, sizeof(*ids));
}

/* ---- Building ---- */

static int check_id(const struct vocab *v, int32_t id, struct str text, size_t token_count, struct error *e)
{
	if (vocab_find(v, text) >= 0)
		return error_set(e, ERR_INPUT, "the token \"%.*s\" is in the vocabulary twice", STR_ARG(text));
	if (vocab_has(v, id))
		return error_set(e, ERR_INPUT, "the tokens \"%.*s\" and \"%.*s\" both have id %d",
			STR_ARG(vocab_text(v, id)), STR_ARG(text), id);
	size_t end = VOCAB_HOLES + 8 * token_count;
	if (id < 0 || id >= VOCAB_ID_END || (size_t)id >= end)
		return error_set(e, ERR_INPUT,
			"the token \"%.*s\" has id %d, expected less than %zu in a vocabulary of %zu tokens",
			STR_ARG(text), id, end < VOCAB_ID_END ? end : VOCAB_ID_END, token_count);
	return 0;
}

static int add_model_tokens(struct tokenizer *t, const struct tokenizer_spec *spec, struct error *e)
{
	for (size_t i = 0; i < spec->token_count; i++) {
		const struct spec_token *token = &spec->tokens[i];
		TRY(check_id(&t->vocab, token->id, token->text, spec->token_count, e));
		TRY(vocab_add(&t->vocab, token->text, token->id, VOCAB_MODEL, e));
	}
	return 0;
}

/* Gives each added token its id: the vocabulary's, else the next one behind it. */
static int add_added_tokens(struct tokenizer *t, const struct tokenizer_spec *spec, struct error *e)
{
	size_t model_count = t->vocab.count, next = model_count, largest = 0;
	for (size_t i = 0; i < spec->added_count; i++) {
		struct str content = spec->added[i].content;
		if (i == spec->own_added && i > 0 && largest >= model_count)
			next = largest + 1;
		int32_t id = vocab_find(&t->vocab, content);
		if (id < 0) {
			id = next < VOCAB_ID_END ? (int32_t)next++ : VOCAB_ID_END;
			TRY(check_id(&t->vocab, id, content, model_count + spec->added_count, e));
			TRY(vocab_add(&t->vocab, content, id, 0, e));
		}
		t->vocab.tokens[id].flags |= spec->added[i].special ? VOCAB_ADDED | VOCAB_SPECIAL : VOCAB_ADDED;
		largest = (size_t)id > largest ? (size_t)id : largest;
	}
	return 0;
}

/* The form that an added token has in a normalised text. */
static int normalized_form(struct tokenizer *t, struct normalize_scratch *scratch, int32_t id, struct str content,
	struct str *form, struct error *e)
{
	bool head = true;
	*form = content;
	if (!t->normalizer)
		return 0;
	scratch->limit = content.length * GROWTH_FACTOR + GROWTH_FREE;
	TRY(normalizer_run(t->normalizer, scratch, content, form, &head, e));
	if (str_equal(*form, content))
		return 0;
	struct pair_value range = {(uint32_t)t->form_text.length, (uint32_t)form->length};
	if (form->length > UINT32_MAX - t->form_text.length)
		return error_set(e, ERR_INPUT, "the added tokens are longer than 4 GiB together");
	buf_append_str(&t->form_text, *form);
	TRY(buf_check(&t->form_text, e));
	return pair_map_put(&t->forms, (uint64_t)id, range, e);
}

static int add_searches(
	struct tokenizer *t, const struct tokenizer_spec *spec, struct normalize_scratch *scratch, struct error *e)
{
	for (size_t i = 0; i < spec->added_count; i++) {
		const struct spec_added *added = &spec->added[i];
		struct added_leaf leaf = {.id = vocab_find(&t->vocab, added->content),
			.lstrip = added->lstrip,
			.rstrip = added->rstrip,
			.single_word = added->single_word,
			.is_text = spec->split_special && added->special};
		struct str form = added->content;
		if (added->normalized)
			TRY(normalized_form(t, scratch, leaf.id, added->content, &form, e));
		TRY(added_tokens_add(added->normalized ? &t->normalized : &t->plain, form, leaf, e));
	}
	return 0;
}

static int build_searches(struct tokenizer *t, const struct tokenizer_spec *spec, struct error *e)
{
	struct normalize_scratch scratch = {.pattern = pattern_scratch_new(e)};
	int status = scratch.pattern ? add_searches(t, spec, &scratch, e) : ERR_MEMORY;
	pattern_scratch_delete(scratch.pattern);
	normalize_scratch_free(&scratch);
	return status;
}

static int build(struct tokenizer *t, const struct tokenizer_spec *spec, struct error *e)
{
	TRY(add_model_tokens(t, spec, e));
	TRY(add_added_tokens(t, spec, e));
	TRY(bpe_init(&t->bpe, &t->vocab, spec, e));
	TRY(normalizer_new(spec->normalizer, &t->normalizer, e));
	TRY(pretokenizer_new(spec->pre_tokenizer, &t->pretokenizer, e));
	TRY(post_processor_init(&t->post, spec->post_processor, e));
	TRY(token_decoder_new(spec->decoder, &t->decoder, e));
	t->bos = spec->bos.length > 0 ? vocab_find(&t->vocab, spec->bos) : -1;
	t->eos = spec->eos.length > 0 ? vocab_find(&t->vocab, spec->eos) : -1;
	return build_searches(t, spec, e);
}

int tokenizer_build(const struct tokenizer_spec *spec, const char *fingerprint, struct tokenizer **out, struct error *e)
{
	struct tokenizer *t = mem_calloc(1, sizeof(*t), e);
	if (!t)
		return ERR_MEMORY;
	int status = build(t, spec, e);
	if (status < 0) {
		tokenizer_free(t);
		return status;
	}
	memcpy(t->fingerprint, fingerprint, sizeof(t->fingerprint));
	*out = t;
	return 0;
}

void tokenizer_free(struct tokenizer *t)
{
	if (!t)
		return;
	vocab_free(&t->vocab);
	bpe_free(&t->bpe);
	added_tokens_free(&t->plain);
	added_tokens_free(&t->normalized);
	pair_map_free(&t->forms);
	buf_free(&t->form_text);
	normalizer_delete(t->normalizer);
	pretokenizer_delete(t->pretokenizer);
	token_decoder_delete(t->decoder);
	post_processor_free(&t->post);
	free(t);
}

/* ---- Opening ---- */

static int fingerprint_of(struct str first, struct str second, char out[SHA256_HEX_SIZE], struct error *e)
{
	struct sha256 *digest = sha256_new(e);
	if (!digest)
		return ERR_MEMORY;
	sha256_update(digest, first.data, first.length);
	sha256_update(digest, second.data, second.length);
	sha256_finish(digest, out);
	sha256_delete(digest);
	return 0;
}

/* After a failure: says which file it was about. */
static int name_error(int status, const char *name, struct error *e)
{
	return status < 0 && name ? error_prefix(e, "%s", name) : status;
}

int tokenizer_open(struct str tokenizer_json, const char *name, struct str tokenizer_config, const char *config_name,
	struct tokenizer **out, struct error *e)
{
	struct json_document *document = NULL, *config = NULL;
	struct tokenizer_spec spec = {0};
	char fingerprint[SHA256_HEX_SIZE];
	int status;
	TRY_CLEANUP(status, json_parse(tokenizer_json, name, JSON_LAST_KEY_WINS, &document, e));
	TRY_CLEANUP(status, name_error(tokenizer_json_read(json_root(document), &spec, e), name, e));
	if (tokenizer_config.length > 0) {
		TRY_CLEANUP(status, json_parse(tokenizer_config, config_name, JSON_LAST_KEY_WINS, &config, e));
		TRY_CLEANUP(status, name_error(tokenizer_config_read(json_root(config), &spec, e), config_name, e));
	}
	TRY_CLEANUP(status, fingerprint_of(tokenizer_json, tokenizer_config, fingerprint, e));
	status = name_error(tokenizer_build(&spec, fingerprint, out, e), name, e);

cleanup:
	tokenizer_spec_free(&spec);
	json_free(document);
	json_free(config);
	return status;
}

int tokenizer_open_folder(const char *folder, struct tokenizer **out, struct error *e)
{
	struct buf text = {0}, config = {0};
	int status = ERR_MEMORY;
	char *path = path_join(folder, "tokenizer.json", e),
	     *config_path = path_join(folder, "tokenizer_config.json", e);
	if (!path || !config_path)
		goto cleanup;
	TRY_CLEANUP(status, file_read(path, &text, e));
	bool has_config = file_exists(config_path);
	if (has_config)
		TRY_CLEANUP(status, file_read(config_path, &config, e));
	if (has_config && config.length == 0)
		TRY_CLEANUP(status, error_set(e, ERR_INPUT, "%s: the file is empty, expected a JSON object", config_path));
	status = tokenizer_open(buf_str(&text), path, buf_str(&config), config_path, out, e);

cleanup:
	buf_free(&text);
	buf_free(&config);
	free(path);
	free(config_path);
	return status;
}

/* ---- Encoding ---- */

/* The working memory of one call. */
struct encoder {
	struct pattern_scratch *pattern;
	struct pieces pieces, next;
	struct normalize_scratch normalize;
	struct buf normalized;
	struct pretokenize_scratch pretokenize;
	struct bpe_scratch bpe;
};

static void encoder_free(struct encoder *w)
{
	pattern_scratch_delete(w->pattern);
	pieces_free(&w->pieces);
	pieces_free(&w->next);
	normalize_scratch_free(&w->normalize);
	buf_free(&w->normalized);
	pretokenize_scratch_free(&w->pretokenize);
	bpe_scratch_free(&w->bpe);
}

/* What was gathered in next takes the place of pieces. */
static void encoder_turn(struct encoder *w)
{
	struct pieces done = w->pieces;
	w->pieces = w->next;
	w->next = done;
	w->next.count = 0;
}

static int split_added(const struct added_tokens *added, struct encoder *w, struct error *e)
{
	w->next.text = w->pieces.text;
	for (size_t i = 0; i < w->pieces.count; i++) {
		const struct piece *piece = &w->pieces.list[i];
		if (piece->id == PIECE_TEXT)
			TRY(added_tokens_split(added, &w->pieces, piece, &w->next, e));
		else
			TRY(pieces_push(&w->next, *piece, e));
	}
	encoder_turn(w);
	return 0;
}

static int normalize(const struct tokenizer *t, struct encoder *w, struct error *e)
{
	size_t limit = w->pieces.text.length * GROWTH_FACTOR + GROWTH_FREE;
	limit = limit < TEXT_MAX ? limit : TEXT_MAX;
	w->normalize.pattern = w->pattern;
	for (size_t i = 0; i < w->pieces.count; i++) {
		struct piece piece = w->pieces.list[i];
		if (piece.id == PIECE_TEXT) {
			struct str form;
			bool head = true;
			w->normalize.limit = limit - w->normalized.length;
			TRY(normalizer_run(
				t->normalizer, &w->normalize, piece_text(&w->pieces, &piece), &form, &head, e));
			if (form.length == 0)
				continue;
			piece.start = (uint32_t)w->normalized.length;
			piece.length = (uint32_t)form.length;
			piece.first = piece.first && head;
			buf_append_str(&w->normalized, form);
		}
		TRY(pieces_push(&w->next, piece, e));
	}
	w->next.text = buf_str(&w->normalized);
	encoder_turn(w);
	return buf_check(&w->normalized, e);
}

static int encode_text(
	const struct tokenizer *t, struct encoder *w, struct str text, struct token_ids *ids, struct error *e)
{
	w->pattern = pattern_scratch_new(e);
	if (!w->pattern)
		return ERR_MEMORY;
	w->pretokenize.pattern = w->pattern;
	w->pieces.text = text;
	TRY(pieces_push(&w->pieces, (struct piece){0, (uint32_t)text.length, PIECE_TEXT, true}, e));
	TRY(split_added(&t->plain, w, e));
	if (t->normalizer)
		TRY(normalize(t, w, e));
	TRY(split_added(&t->normalized, w, e));
	if (t->pretokenizer)
		TRY(pretokenizer_run(t->pretokenizer, &w->pretokenize, &w->pieces, e));
	for (size_t i = 0; i < w->pieces.count; i++) {
		const struct piece *piece = &w->pieces.list[i];
		if (piece->id == PIECE_TEXT)
			TRY(bpe_encode(&t->bpe, &w->bpe, piece_text(&w->pieces, piece), ids, e));
		else
			TRY(token_ids_push(ids, piece->id, e));
	}
	return 0;
}

static int push_all(struct token_ids *ids, const struct token_ids *more, struct error *e)
{
	for (size_t i = 0; i < more->count; i++)
		TRY(token_ids_push(ids, more->data[i], e));
	return 0;
}

int tokenizer_encode(const struct tokenizer *t, struct str text, enum tokenizer_specials specials,
	struct token_ids *ids, struct error *e)
{
	if (text.length > TEXT_MAX)
		return error_set(e, ERR_LIMIT,
			"a text of %zu bytes is too long for the tokenizer, at most %d are taken", text.length,
			TEXT_MAX);
	if (!utf8_valid(text))
		return error_set(e, ERR_INPUT, "a text of %zu bytes for the tokenizer is not UTF-8", text.length);
	struct encoder w = {0};
	size_t before = ids->count;
	int status = 0;
	if (specials == TOKENIZER_SPECIALS)
		TRY_CLEANUP(status, push_all(ids, &t->post.before, e));
	if (text.length > 0)
		TRY_CLEANUP(status, encode_text(t, &w, text, ids, e));
	if (specials == TOKENIZER_SPECIALS)
		TRY_CLEANUP(status, push_all(ids, &t->post.behind, e));

cleanup:
	if (status < 0)
		ids->count = before;
	encoder_free(&w);
	return status;
}

/* ---- Decoding ---- */

/* The spelling that goes into the decoder; false: nothing does. */
static bool decoded_form(const struct tokenizer *t, int32_t id, bool skip_special, struct str *form)
{
	if (!vocab_has(&t->vocab, id))
		return false;
	const struct pair_value *range = pair_map_get(&t->forms, (uint64_t)id);
	*form = vocab_text(&t->vocab, id);
	if (range && range->second > 0)
		*form = (struct str){t->form_text.data + range->first, range->second};
	/* As in the reference, a special token that the normaliser changes is not known as one by its changed form. */
	int32_t known_as = range ? vocab_find(&t->vocab, *form) : id;
	return !skip_special || (vocab_flags(&t->vocab, known_as) & VOCAB_SPECIAL) == 0;
}

void tokenizer_decode_id(const struct tokenizer *t, int32_t id, bool skip_special, struct buf *bytes)
{
	struct str form;
	if (decoded_form(t, id, skip_special, &form))
		token_decoder_bytes(t->decoder, form, bytes);
}

void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool skip_special, struct buf *text)
{
	struct spellings tokens = {0};
	for (size_t i = 0; i < count; i++) {
		struct str form;
		if (decoded_form(t, ids[i], skip_special, &form))
			spellings_add(&tokens, form);
	}
	token_decoder_text(t->decoder, &tokens, text);
	spellings_free(&tokens);
}

/* ---- Looking up ---- */

struct str tokenizer_piece(const struct tokenizer *t, int32_t id)
{
	return vocab_text(&t->vocab, id);
}

int32_t tokenizer_id(const struct tokenizer *t, struct str piece)
{
	return vocab_find(&t->vocab, piece);
}

size_t tokenizer_vocab_size(const struct tokenizer *t)
{
	return t->vocab.size;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
	return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
	return t->eos;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
	return (vocab_flags(&t->vocab, id) & VOCAB_SPECIAL) != 0;
}

const char *tokenizer_fingerprint(const struct tokenizer *t)
{
	return t->fingerprint;
}
