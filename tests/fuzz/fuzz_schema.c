/* Any schema on any instance, from one text {"schema", "instance"}: it is judged, or an error says why not, within the
 * bounds of work; what it says is the same the second time. Any text as a pattern on itself. */
#include "evals/ecma_pattern.h"
#include "evals/json_schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_schema: %s\n", what);
	abort();
}

static int judge(const struct json *schema, const struct json *instance)
{
	struct json_schema *compiled = NULL;
	struct error e = {0};
	struct buf why = {0};
	int result = json_schema_new(schema, &compiled, &e);
	if (result == 0)
		result = json_schema_check(compiled, instance, &why, &e);
	require((result < 0) == (e.message[0] != '\0'), "status and message disagree");
	require((result == 0) == (why.length > 0), "verdict and reason disagree");
	json_schema_delete(compiled);
	buf_free(&why);
	return result;
}

static void try_pattern(struct str text)
{
	struct ecma_pattern *p = NULL;
	struct error e = {0};
	uint64_t work = 1000000;
	int status = ecma_pattern_new(text, &p, &e);
	require((status == 0) == (p != NULL) && (status == 0) == (e.message[0] == '\0'),
		"pattern: status and message disagree");
	if (p)
		ecma_pattern_found(p, text, &work, &e);
	ecma_pattern_delete(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = {(const char *)data, size};
	struct json_document *document;
	if (json_parse(text, NULL, JSON_LAST_KEY_WINS, &document, NULL) < 0)
		return 0;
	const struct json *root = json_root(document);
	const struct json *schema = json_get(root, "schema"), *instance = json_get(root, "instance");
	if (json_is(root, JSON_STRING))
		try_pattern(root->text);
	if (schema && instance)
		require(judge(schema, instance) == judge(schema, instance), "judged twice, it differs");
	else
		judge(root, root);
	json_free(document);
	return 0;
}
