/* The first byte chooses. Even: the rest is text for a byte-level tokenizer, which must give it back. Odd:
 * tokenizer.json, a zero byte, text: the file is refused with a message, or its ids are ids of its vocabulary and
 * decode. */
#include "engine/base/utf8.h"
#include "engine/text/encode_pair.h"
#include "engine/text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_tokenizer: %s\n", what);
	abort();
}

static const char parts[] =
	"\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
	"\"invert\":false,"
	"\"pattern\":{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "
	"?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},"
	"{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},\"decoder\":{\"type\":\"ByteLevel\"}"
	","
	"\"added_tokens\":[{\"id\":258,\"content\":\"<s>\",\"special\":true,\"normalized\":false,\"lstrip\":false,"
	"\"rstrip\":false,"
	"\"single_word\":false}]";

/* The 256 bytes, "lo" and "low". Opened once. */
static const struct tokenizer *byte_tokenizer(void)
{
	static struct tokenizer *t;
	if (t)
		return t;
	struct buf json = {0};
	struct error e = {0};
	buf_append_text(&json, "{\"model\":{\"vocab\":{");
	int next = 0;
	for (int byte = 0; byte < 256; byte++) {
		bool prints = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
		int code_point = prints ? byte : 256 + next++;
		buf_printf(&json, "\"\\u%04x\":%d,", (unsigned)code_point, byte);
	}
	buf_printf(&json, "\"lo\":256,\"low\":257},\"merges\":[\"l o\",\"lo w\"]},%s}", parts);
	int status = tokenizer_open(buf_str(&json), "built in", (struct str){NULL, 0}, NULL, &t, &e);
	require(status == 0, e.message);
	buf_free(&json);
	return t;
}

/* Encodes and decodes; *back is the text that came back. */
static int round_trip(const struct tokenizer *t, struct str text, struct buf *back)
{
	struct token_ids ids = {0};
	struct error e = {0};
	int status = tokenizer_encode(t, text, TOKENIZER_SPECIALS, &ids, &e);
	require((status == 0) == (e.message[0] == '\0'), "status and message disagree");
	require(status == 0 || ids.count == 0, "an error left ids behind");
	require(utf8_valid(text) || status == ERR_INPUT, "invalid text was taken");
	tokenizer_decode(t, ids.data, ids.count, false, back);
	require(utf8_valid(buf_str(back)), "decoded text is not UTF-8");
	struct buf bytes = {0};
	for (size_t i = 0; i < ids.count; i++)
		tokenizer_decode_id(t, ids.data[i], true, &bytes);
	buf_free(&bytes);
	size_t n_context;
	struct token_ids whole = {0};
	struct str context = {text.data, text.length / 2};
	struct str rest = {text.data ? text.data + context.length : NULL, text.length - context.length};
	if (encode_pair(t, context, rest, TOKENIZER_SPECIALS, &whole, &n_context, &e) == 0)
		require(n_context > 0 && n_context <= whole.count, "a context without its tokens");
	token_ids_free(&whole);
	token_ids_free(&ids);
	return status;
}

static void fuzz_file(struct str json, struct str text)
{
	struct tokenizer *t = NULL;
	struct error e = {0};
	int status = tokenizer_open(json, "fuzz", text, "config", &t, &e);
	if (status < 0)
		status = tokenizer_open(json, "fuzz", (struct str){NULL, 0}, NULL, &t, &e);
	require((status == 0) == (t != NULL), "status and tokenizer disagree");
	if (status < 0) {
		require(e.message[0] != '\0', "an error without a message");
		return;
	}
	struct buf back = {0};
	round_trip(t, text, &back);
	buf_free(&back);
	tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	struct str rest = {(const char *)data + 1, size - 1};
	if (data[0] % 2 == 0) {
		struct buf back = {0};
		if (round_trip(byte_tokenizer(), rest, &back) == 0)
			require(str_equal(rest, buf_str(&back)), "the text did not come back");
		buf_free(&back);
		return 0;
	}
	const char *zero = memchr(rest.data, '\0', rest.length);
	size_t length = zero ? (size_t)(zero - rest.data) : rest.length;
	fuzz_file((struct str){rest.data, length},
		zero ? (struct str){zero + 1, rest.length - length - 1} : (struct str){NULL, 0});
	return 0;
}
