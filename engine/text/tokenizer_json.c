#include "engine/text/tokenizer_json.h"

#include "engine/text/field.h"
#include "engine/text/pair_map.h"
#include "engine/text/vocab.h"

/* ---- The model ---- */

static int read_vocab(const struct json *model, struct tokenizer_spec *spec, struct error *e)
{
	const struct json *vocab = json_get(model, "vocab");
	if (!json_is(vocab, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "model: \"vocab\" is %s, expected an object", json_type_name(vocab));
	spec->tokens = mem_calloc(vocab->count, sizeof(*spec->tokens), e);
	if (!spec->tokens)
		return ERR_MEMORY;
	JSON_EACH (token, vocab) {
		int64_t id;
		if (token->shadowed)
			continue;
		if (!json_is(token, JSON_NUMBER) || !json_int64(token, &id) || id < 0 || id >= VOCAB_ID_END)
			return error_set(e, ERR_INPUT,
				"model: the id of \"%.*s\" is %.*s, expected an integer from 0 to %d",
				STR_ARG(token->key), STR_ARG(token->text), VOCAB_ID_END - 1);
		spec->tokens[spec->token_count++] = (struct spec_token){token->key, (int32_t)id};
	}
	return 0;
}

/* The old form, "left right"; tokens with a space in them need the new one. */
static int read_merge_text(struct str text, size_t index, struct spec_merge *out, struct error *e)
{
	size_t space = str_find(text, str_of(" "), 0);
	if (space == (size_t)-1 || str_find(text, str_of(" "), space + 1) != (size_t)-1)
		return error_set(e, ERR_INPUT,
			"model: merge %zu is \"%.*s\", expected two tokens with one space between them", index,
			STR_ARG(text));
	out->left = (struct str){text.data, space};
	out->right = (struct str){text.data + space + 1, text.length - space - 1};
	return 0;
}

static int read_merge_pair(const struct json *merge, size_t index, struct spec_merge *out, struct error *e)
{
	const struct json *left = merge->child, *right = left ? left->next : NULL;
	if (!json_is(merge, JSON_ARRAY) || merge->count != 2 || !json_is(left, JSON_STRING) ||
		!json_is(right, JSON_STRING))
		return error_set(e, ERR_INPUT,
			"model: merge %zu is %s, expected two tokens, as all merges of this file are", index,
			json_type_name(merge));
	*out = (struct spec_merge){left->text, right->text};
	return 0;
}

static int read_merges(const struct json *model, struct tokenizer_spec *spec, struct error *e)
{
	const struct json *merges;
	TRY(field_array(model, "merges", "model", &merges, e));
	spec->merges = mem_calloc(merges->count, sizeof(*spec->merges), e);
	if (!spec->merges)
		return ERR_MEMORY;
	bool is_text = json_is(merges->child, JSON_STRING);
	size_t index = 0;
	JSON_EACH (merge, merges) {
		struct spec_merge *out = &spec->merges[spec->merge_count];
		if (is_text && json_is(merge, JSON_STRING)) {
			/* The head line of the merges.txt that such a list was made from. */
			if (str_starts_with(merge->text, str_of("#version")))
				continue;
			TRY(read_merge_text(merge->text, index, out, e));
		} else if (is_text) {
			return error_set(e, ERR_INPUT,
				"model: merge %zu is %s, expected a string, as all merges of this file are", index,
				json_type_name(merge));
		} else {
			TRY(read_merge_pair(merge, index, out, e));
		}
		spec->merge_count++;
		index++;
	}
	return 0;
}

/* Options of other tokenizers that change what merges do. */
static int refuse_affixes(const struct json *model, struct error *e)
{
	static const char *const keys[] = {"continuing_subword_prefix", "end_of_word_suffix"};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct json *value = json_get(model, keys[i]);
		if (value && !json_is(value, JSON_NULL) && !(json_is(value, JSON_STRING) && value->text.length == 0))
			return error_set(e, ERR_INPUT,
				"model: \"%s\" is not supported, expected null or an empty string", keys[i]);
	}
	const struct json *dropout = json_get(model, "dropout");
	if (dropout && !json_is(dropout, JSON_NULL) && !(json_is(dropout, JSON_NUMBER) && json_double(dropout) == 0))
		return error_set(e, ERR_INPUT,
			"model: \"dropout\" is not supported, expected null or 0: the same text must give the same "
			"tokens");
	return 0;
}

static int read_model(const struct json *model, struct tokenizer_spec *spec, struct error *e)
{
	if (!json_is(model, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "\"model\" is %s, expected an object", json_type_name(model));
	const struct json *type = json_get(model, "type"), *unk = json_get(model, "unk_token");
	if (type && !(json_is(type, JSON_STRING) && str_is(type->text, "BPE")))
		return field_refuse_type(model, "model", "BPE", e);
	TRY(refuse_affixes(model, e));
	spec->has_unk = unk && !json_is(unk, JSON_NULL);
	if (spec->has_unk)
		TRY(field_text(model, "unk_token", "model", &spec->unk, e));
	TRY(field_bool_or(model, "fuse_unk", "model", false, &spec->fuse_unk, e));
	TRY(field_bool_or(model, "byte_fallback", "model", false, &spec->byte_fallback, e));
	TRY(field_bool_or(model, "ignore_merges", "model", false, &spec->ignore_merges, e));
	TRY(read_vocab(model, spec, e));
	return read_merges(model, spec, e);
}

/* ---- Added tokens ---- */

/* The ids that the file writes must be sane and differ; the place of a token decides its id, as in the reference.
 * seen: written id -> entry of the list. */
static int check_written_id(
	const struct json *list, const struct json *token, size_t index, struct pair_map *seen, struct error *e)
{
	int64_t id;
	TRY(field_int(token, "id", "added_tokens", VOCAB_ID_END, &id, e));
	const struct pair_value *earlier = pair_map_get(seen, (uint64_t)id);
	if (!earlier)
		return pair_map_put(seen, (uint64_t)id, (struct pair_value){(uint32_t)index, 0}, e);
	struct str first = json_get(json_at(list, earlier->first), "content")->text,
		   second = json_get(token, "content")->text;
	if (str_equal(first, second))
		return 0;
	return error_set(e, ERR_INPUT, "added_tokens: \"%.*s\" and \"%.*s\" both have id %lld", STR_ARG(first),
		STR_ARG(second), (long long)id);
}

static int read_added_token(const struct json *token, struct spec_added *out, struct error *e)
{
	static const char where[] = "added_tokens";
	TRY(field_text(token, "content", where, &out->content, e));
	TRY(field_bool(token, "single_word", where, &out->single_word, e));
	TRY(field_bool(token, "lstrip", where, &out->lstrip, e));
	TRY(field_bool(token, "rstrip", where, &out->rstrip, e));
	TRY(field_bool(token, "normalized", where, &out->normalized, e));
	return field_bool(token, "special", where, &out->special, e);
}

static int read_added(const struct json *root, struct tokenizer_spec *spec, struct error *e)
{
	const struct json *list = json_get(root, "added_tokens");
	if (!list)
		return 0;
	TRY(field_array(root, "added_tokens", "the file", &list, e));
	struct pair_map seen = {0};
	int status = 0;
	size_t index = 0;
	JSON_EACH (token, list) {
		struct spec_added added = {0};
		TRY_CLEANUP(status, read_added_token(token, &added, e));
		TRY_CLEANUP(status, spec_add(spec, added, e));
		TRY_CLEANUP(status, check_written_id(list, token, index++, &seen, e));
	}

cleanup:
	pair_map_free(&seen);
	return status;
}

int tokenizer_json_read(const struct json *root, struct tokenizer_spec *spec, struct error *e)
{
	if (!json_is(root, JSON_OBJECT))
		return error_set(e, ERR_INPUT, "the file holds %s, expected an object", json_type_name(root));
	const struct json *version = json_get(root, "version");
	if (version && !(json_is(version, JSON_STRING) && str_is(version->text, "1.0")))
		return error_set(e, ERR_INPUT, "\"version\" is \"%.*s\", expected \"1.0\"", STR_ARG(version->text));
	TRY(read_model(json_get(root, "model"), spec, e));
	TRY(read_added(root, spec, e));
	spec->own_added = spec->added_count;
	spec->normalizer = json_get(root, "normalizer");
	spec->pre_tokenizer = json_get(root, "pre_tokenizer");
	spec->post_processor = json_get(root, "post_processor");
	spec->decoder = json_get(root, "decoder");
	return 0;
}
