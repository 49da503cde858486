/* Any bytes: the parser takes them or names what is wrong, and what it takes is written in a form that it takes again,
 * with nothing lost. */
#include "engine/base/json_strict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_json: %s\n", what);
	abort();
}

/* Numbers beyond the range of a double are written as Python's Infinity, which is no JSON. */
static bool is_finite(const struct json *value)
{
	double number = json_double(value);
	if (json_is(value, JSON_NUMBER) && (number > 1.7976931348623157e308 || number < -1.7976931348623157e308))
		return false;
	JSON_EACH (item, value) {
		if (!is_finite(item))
			return false;
	}
	return true;
}

static void check_dump(const struct json *root, int indent, bool ensure_ascii)
{
	struct buf first = {0};
	json_dump_python(root, indent, ensure_ascii, &first);
	require(!first.failed, "no memory to write");
	struct json_document *again;
	struct error e = {0};
	int status = json_parse(buf_str(&first), NULL, JSON_REFUSE_DOUBLED_KEYS, &again, &e);
	require(status == 0, e.message);
	struct buf second = {0};
	json_dump_python(json_root(again), indent, ensure_ascii, &second);
	require(str_equal(buf_str(&first), buf_str(&second)), "written twice, it differs");
	json_free(again);
	buf_free(&first);
	buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};
	struct json_document *document;
	struct error e = {0};
	int status = json_parse(text, "fuzz", JSON_LAST_KEY_WINS, &document, &e);
	require((status == 0) == (e.message[0] == '\0') && (status == 0) == (document != NULL),
		"status and message disagree");
	if (status < 0)
		return 0;
	if (is_finite(json_root(document))) {
		check_dump(json_root(document), -1, true);
		check_dump(json_root(document), 2, false);
	}
	json_free(document);
	status = json_parse(text, "fuzz", JSON_REFUSE_DOUBLED_KEYS, &document, &e);
	json_free(document);
	return 0;
}
