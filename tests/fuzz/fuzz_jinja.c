/* A template, a zero byte, JSON: the template is refused with a message that names it, or it renders the JSON's members:
 * again and again the same valid text, or the same message. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/utf8.h"
#include "engine/text/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_jinja: %s\n", what);
	abort();
}

/* What templates find when the input brings no JSON. */
static const char conversation[] =
	"{\"messages\": [{\"role\": \"user\", \"content\": \"Hi \\u00e9<b>\"}, {\"role\": \"assistant\", \"content\": "
	"null, "
	"\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5, true, null, \"x\"]}}}]}], "
	"\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}], \"s\": \"a b,c\", "
	"\"n\": 3, \"l\": [3, 1, 2], \"d\": {\"k\": \"v\"}}";

static int render(const struct jinja *j, const struct json *variables, struct buf *out, struct error *e)
{
	struct tm now = {.tm_year = 125, .tm_mday = 1};
	bool asked;
	(void)timegm(&now);
	const struct jinja_context context = {
		.more = variables, .messages = json_get(variables, "messages"), .now = now};
	int status = jinja_render(j, &context, &asked, out, e);
	require(status == 0 || (status == ERR_INPUT && strncmp(e->message, "fuzz:", 5) == 0),
		"an error without its place");
	require(status == 0 || out->length == 0, "an error left text behind");
	require(out->length <= 32 << 20, "the text is longer than it may be");
	require(utf8_valid(buf_str(out)), "the text is not UTF-8");
	return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *zero = size ? memchr(data, '\0', size) : NULL;
	size_t length = zero ? (size_t)(zero - (const char *)data) : size;
	struct str json = zero ? (struct str){zero + 1, size - length - 1} : str_of(conversation);
	struct json_document *variables = NULL;
	struct jinja *j = NULL;
	struct error e = {0}, again = {0};
	struct buf out = {0}, twice = {0};
	if (json_parse(json, NULL, JSON_LAST_KEY_WINS, &variables, &e) < 0)
		return 0;
	int status = jinja_new((struct str){(const char *)data, length}, "fuzz", &j, &e);
	require((status == 0) == (j != NULL), "status and template disagree");
	require(status == 0 || strncmp(e.message, "fuzz:", 5) == 0, "a refusal without the template's name");
	if (status == 0 && json_is(json_root(variables), JSON_OBJECT)) {
		int first = render(j, json_root(variables), &out, &e);
		require(render(j, json_root(variables), &twice, &again) == first, "it renders once and not again");
		require(str_equal(buf_str(&out), buf_str(&twice)), "it renders another text");
		require(first == 0 || strcmp(e.message, again.message) == 0, "it fails in another way");
	}
	buf_free(&out);
	buf_free(&twice);
	jinja_delete(j);
	json_free(variables);
	return 0;
}
