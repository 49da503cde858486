/* Any bytes: the parser takes them or names what is wrong, and what it takes is written in a form that it takes again,
 * with nothing lost. */
#include "engine/base/json_number.h"

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

/* What Python's json.loads takes besides JSON is written as Python writes it, and equals itself (but for NaN). */
static void check_python(struct str text, bool is_json)
{
	struct json_document *first, *second;
	struct error e = {0};
	int status = json_parse(text, NULL, JSON_PYTHON_CONSTANTS, &first, &e);
	require(!is_json || status == 0, "JSON that Python's reader refuses");
	if (status < 0)
		return;
	struct buf dumped = {0};
	uint64_t work = 10000000;
	json_dump_python(json_root(first), -1, false, &dumped);
	require(json_parse(buf_str(&dumped), NULL, JSON_PYTHON_CONSTANTS, &second, &e) == 0, e.message);
	bool equal = json_equal(json_root(first), json_root(second), JSON_EQUAL_PYTHON, &work);
	require(equal || work == 0 || str_find(buf_str(&dumped), str_of("NaN"), 0) != SIZE_MAX,
		"written and read, it differs");
	json_free(first);
	json_free(second);
	buf_free(&dumped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};
	struct json_document *document;
	struct error e = {0};
	int status = json_parse(text, "fuzz", JSON_LAST_KEY_WINS, &document, &e);
	require((status == 0) == (e.message[0] == '\0') && (status == 0) == (document != NULL),
		"status and message disagree");
	check_python(text, status == 0);
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
