/* Any bytes as sample lines of lm-evaluation-harness: refused with a message, or rows whose texts are JSON and whose
 * documents ascend. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/json_strict.h"
#include "evals/harness_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void require_json(struct str text, enum json_type type)
{
	struct json_document *document = NULL;
	struct error e;
	require(json_parse(text, NULL, JSON_REFUSE_DOUBLED_KEYS, &document, &e) == 0 || strstr(e.message, "twice"));
	if (document)
		require(type == JSON_NULL || json_is(json_root(document), type));
	json_free(document);
}

static int visit(void *context, const struct store_sample *sample, struct error *e)
{
	int64_t *last = context;
	(void)e;
	require(sample->doc_id > *last);
	*last = sample->doc_id;
	require(strlen(sample->doc_hash) == 64 && strlen(sample->prompt_hash) == 64 &&
		strlen(sample->target_hash) == 64);
	require_json(sample->response, JSON_NULL);
	require_json(sample->metrics, JSON_OBJECT);
	require_json(sample->filtered, JSON_OBJECT);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	struct error e = {0};
	int64_t documents, last = -1;
	int file = memfd_create("samples", MFD_CLOEXEC);
	require(file >= 0 && write(file, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	int status = harness_samples_each(path, "suite", "task", 1, visit, &last, &documents, &e);
	require(status == 0 || e.message[0]);
	close(file);
	return 0;
}
