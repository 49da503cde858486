#include "engine/text/tokenizer_gguf.h"

#include "engine/base/hash.h"
#include "engine/base/json_strict.h"
#include "engine/base/utf8.h"
#include "engine/text/tokenizer_spec.h"

#define PREFIX "tokenizer.ggml."

/* ---- Pre-tokenizers ---- */

#define SPLIT(regex) \
	"{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define BYTE_LEVEL(use_regex) \
	"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":" use_regex "}"
#define SINGLE_DIGITS "{\"type\":\"Digits\",\"individual_digits\":true}"
#define SEQUENCE(parts) "{\"type\":\"Sequence\",\"pretokenizers\":[" parts "]}"

/* The pattern of cl100k with so many digits in a piece. */
#define CL100K(digits)                                                                         \
	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" digits \
	"| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*"                                            \
	"|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)"

/* What llama.cpp does where a converter knew no better: punctuation, then as GPT-2, then digits, then three of them. */
#define DEFAULT                                      \
	SPLIT("[\\\\p{P}\\\\$\\\\+<=>\\\\^~\\\\|]+") \
	"," SPLIT(GPT2) "," SPLIT("\\\\p{N}+") "," SPLIT("[0-9][0-9][0-9]")

/* A row per name under tokenizer.ggml.pre: the parts in tokenizer.json's form. */
struct pre_tokenizer {
	const char *name, *normalizer, *pre_tokenizer;
	bool ignore_merges;
	bool adds_bos; /* where add_bos_token is not there */
};

static const struct pre_tokenizer pre_tokenizers[] = {
	{.name = "default", .normalizer = "null", .pre_tokenizer = SEQUENCE(DEFAULT "," BYTE_LEVEL("false"))},
	{.name = "gpt-2", .normalizer = "null", .pre_tokenizer = BYTE_LEVEL("true")},
	{.name = "llama-bpe",
		.normalizer = "null",
		.pre_tokenizer = SEQUENCE(SPLIT(CL100K("{1,3}")) "," BYTE_LEVEL("false")),
		.ignore_merges = true,
		.adds_bos = true},
	{.name = "qwen2",
		.normalizer = "{\"type\":\"NFC\"}",
		.pre_tokenizer = SEQUENCE(SPLIT(CL100K("")) "," BYTE_LEVEL("false"))},
	{.name = "smollm", .normalizer = "null", .pre_tokenizer = SEQUENCE(SINGLE_DIGITS "," BYTE_LEVEL("true"))},
};

static const char pre_tokenizer_names[] = "default, gpt-2, llama-bpe, qwen2, smollm";

/* *out is NULL, and an error, where it is not built. */
static int find_pre_tokenizer(const struct gguf *g, const struct pre_tokenizer **out, struct error *e)
{
	static const char key[] = PREFIX "pre";
	struct str name;

	*out = NULL;
	TRY(gguf_required(gguf_text(g, key, &name, e), g, key, e));
	for (size_t i = 0; i < sizeof(pre_tokenizers) / sizeof(pre_tokenizers[0]); i++)
		if (str_is(name, pre_tokenizers[i].name))
			*out = &pre_tokenizers[i];
	if (!*out)
		return error_set(e, ERR_INPUT, "%s: %s '%.*s' is not built; built: %s", gguf_name(g), key,
			STR_ARG(name), pre_tokenizer_names);
	return 0;
}

int tokenizer_gguf_check(const struct gguf *g, struct error *e)
{
	static const char key[] = PREFIX "model";
	const struct pre_tokenizer *pre;
	struct str model;
	int found = gguf_text(g, key, &model, e);

	TRY(found);
	if (!found)
		return error_set(e, ERR_MISSING, "%s: the file has no tokenizer (%s)", gguf_name(g), key);
	if (!str_is(model, "gpt2"))
		return error_set(e, ERR_INPUT, "%s: %s '%.*s' is not built; built: gpt2 (byte-level BPE)", gguf_name(g),
			key, STR_ARG(model));
	return find_pre_tokenizer(g, &pre, e);
}

/* ---- Tokens and merges ---- */

enum token_type { TOKEN_CONTROL = 3, TOKEN_USER_DEFINED = 4 };

static int read_tokens(const struct gguf *g, struct tokenizer_spec *spec, struct error *e)
{
	static const char key[] = PREFIX "tokens";
	struct gguf_value list;

	TRY(gguf_required(gguf_texts(g, key, &list, e), g, key, e));
	if (list.count == 0 || list.count > VOCAB_ID_END)
		return error_set(e, ERR_INPUT, "%s: %s has %llu tokens, expected 1 to %d", gguf_name(g), key,
			(unsigned long long)list.count, VOCAB_ID_END);
	spec->tokens = mem_calloc(list.count, sizeof(*spec->tokens), e);
	if (!spec->tokens)
		return ERR_MEMORY;
	for (const uint8_t *at = list.data; spec->token_count < list.count; spec->token_count++) {
		struct str text = gguf_next_text(&at);
		if (!utf8_valid(text))
			return error_set(e, ERR_INPUT, "%s: token %zu is not UTF-8", gguf_name(g), spec->token_count);
		spec->tokens[spec->token_count] = (struct spec_token){text, (int32_t)spec->token_count};
	}
	return 0;
}

/* "left right": two tokens with one space between them. */
static int read_merges(const struct gguf *g, struct tokenizer_spec *spec, struct error *e)
{
	static const char key[] = PREFIX "merges";
	struct str space = str_of(" ");
	struct gguf_value list;

	TRY(gguf_required(gguf_texts(g, key, &list, e), g, key, e));
	spec->merges = mem_calloc(list.count, sizeof(*spec->merges), e);
	if (!spec->merges)
		return ERR_MEMORY;
	for (const uint8_t *at = list.data; spec->merge_count < list.count; spec->merge_count++) {
		struct str text = gguf_next_text(&at);
		size_t cut = str_find(text, space, 0);
		if (cut == SIZE_MAX || str_find(text, space, cut + 1) != SIZE_MAX)
			return error_set(e, ERR_INPUT,
				"%s: merge %zu is \"%.*s\", expected two tokens with one space between them",
				gguf_name(g), spec->merge_count, STR_ARG(text));
		spec->merges[spec->merge_count] =
			(struct spec_merge){{text.data, cut}, {text.data + cut + 1, text.length - cut - 1}};
	}
	return 0;
}

static int read_added(const struct gguf *g, struct tokenizer_spec *spec, struct error *e)
{
	static const char key[] = PREFIX "token_type";
	struct gguf_value types;
	int found = gguf_ints(g, key, &types, e);

	TRY(found);
	if (!found)
		return 0;
	if (types.count != spec->token_count)
		return error_set(e, ERR_INPUT, "%s: %s has %llu entries, expected one for each of the %zu tokens",
			gguf_name(g), key, (unsigned long long)types.count, spec->token_count);
	for (size_t i = 0; i < spec->token_count; i++) {
		int64_t type = gguf_int_at(&types, i);
		if (type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED)
			TRY(spec_add(spec,
				(struct spec_added){.content = spec->tokens[i].text, .special = type == TOKEN_CONTROL},
				e));
	}
	return 0;
}

/* ---- Roles ---- */

/* The token of a role counts as a control token. *id: -1 where there is none. */
static int read_role(
	const struct gguf *g, const char *key, struct tokenizer_spec *spec, int *id, struct str *text, struct error *e)
{
	*id = -1;
	*text = (struct str){"", 0};
	int found = gguf_int(g, key, 0, (int)spec->token_count - 1, id, e);
	TRY(found);
	if (!found)
		return 0;
	*text = spec->tokens[*id].text;
	return spec_add(spec, (struct spec_added){.content = *text, .special = true}, e);
}

/* Whether a role's token is added to a text; *id is -1 where it is not. */
static int keep_if_added(const struct gguf *g, const char *key, bool adds, int *id, struct error *e)
{
	TRY(gguf_bool(g, key, &adds, e));
	if (adds && *id < 0)
		return error_set(e, ERR_INPUT, "%s: %s is true, but the file names no such token", gguf_name(g), key);
	*id = adds ? *id : -1;
	return 0;
}

/* The post-processor that adds BOS and EOS, as tokenizer.json would have it. */
static void append_post_processor(int bos, int eos, struct buf *out)
{
	if (bos < 0 && eos < 0) {
		buf_append_text(out, "null");
		return;
	}
	buf_append_text(out, "{\"type\":\"TemplateProcessing\",\"single\":[");
	buf_append_text(out, bos >= 0 ? "{\"SpecialToken\":{\"id\":\"bos\"}}," : "");
	buf_append_text(out, "{\"Sequence\":{\"id\":\"A\"}}");
	buf_append_text(out, eos >= 0 ? ",{\"SpecialToken\":{\"id\":\"eos\"}}" : "");
	buf_printf(out, "],\"special_tokens\":{\"bos\":{\"ids\":[%d]},\"eos\":{\"ids\":[%d]}}}", bos < 0 ? 0 : bos,
		eos < 0 ? 0 : eos);
}

/* The parts that tokenizer.json describes. *document holds what the spec borrows. */
static int read_parts(
	const struct gguf *g, struct tokenizer_spec *spec, struct json_document **document, struct error *e)
{
	const struct pre_tokenizer *pre;
	struct buf text = {0};
	struct str padding_text;
	int bos, eos, padding;

	TRY(find_pre_tokenizer(g, &pre, e));
	TRY(read_role(g, PREFIX "bos_token_id", spec, &bos, &spec->bos, e));
	TRY(read_role(g, PREFIX "eos_token_id", spec, &eos, &spec->eos, e));
	TRY(read_role(g, PREFIX "padding_token_id", spec, &padding, &padding_text, e));
	TRY(keep_if_added(g, PREFIX "add_bos_token", pre->adds_bos, &bos, e));
	TRY(keep_if_added(g, PREFIX "add_eos_token", false, &eos, e));
	buf_printf(&text, "{\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,\"post_processor\":", pre->normalizer,
		pre->pre_tokenizer, BYTE_LEVEL("true"));
	append_post_processor(bos, eos, &text);
	buf_append_char(&text, '}');
	int status = buf_check(&text, e);
	if (status == 0)
		status = json_parse(buf_str(&text), gguf_name(g), 0, document, e);
	buf_free(&text);
	TRY(status);
	const struct json *root = json_root(*document);
	spec->ignore_merges = pre->ignore_merges;
	spec->normalizer = json_get(root, "normalizer");
	spec->pre_tokenizer = json_get(root, "pre_tokenizer");
	spec->decoder = json_get(root, "decoder");
	spec->post_processor = json_get(root, "post_processor");
	return 0;
}

/* ---- The whole ---- */

/* Over the keys that begin with "tokenizer.". */
static int fingerprint_of(const struct gguf *g, char out[SHA256_HEX_SIZE], struct error *e)
{
	struct sha256 *digest = sha256_new(e);

	if (!digest)
		return ERR_MEMORY;
	for (size_t i = 0; i < gguf_key_count(g); i++) {
		const struct gguf_key *key = gguf_key_at(g, i);
		uint64_t lengths[2] = {key->name.length, key->value.size};
		if (!str_starts_with(key->name, str_of("tokenizer.")))
			continue;
		sha256_update(digest, lengths, sizeof(lengths));
		sha256_update(digest, key->name.data, key->name.length);
		sha256_update(digest, key->value.data, key->value.size);
	}
	sha256_finish(digest, out);
	sha256_delete(digest);
	return 0;
}

int tokenizer_open_gguf(const struct gguf *g, struct tokenizer **out, struct error *e)
{
	struct tokenizer_spec spec = {0};
	struct json_document *document = NULL;
	char fingerprint[SHA256_HEX_SIZE];
	int status;

	TRY(tokenizer_gguf_check(g, e));
	TRY_CLEANUP(status, read_tokens(g, &spec, e));
	TRY_CLEANUP(status, read_merges(g, &spec, e));
	TRY_CLEANUP(status, read_added(g, &spec, e));
	TRY_CLEANUP(status, read_parts(g, &spec, &document, e));
	spec.own_added = spec.added_count;
	TRY_CLEANUP(status, fingerprint_of(g, fingerprint, e));
	status = tokenizer_build(&spec, fingerprint, out, e);
	if (status < 0)
		error_prefix(e, "%s", gguf_name(g));

cleanup:
	tokenizer_spec_free(&spec);
	json_free(document);
	return status;
}
