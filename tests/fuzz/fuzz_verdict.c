/* Any bytes as a policy and two files of sample lines (divided by 0xff): refused with a message, or judged, and then
 * every form of the verdict can be written. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/json_strict.h"
#include "engine/base/utf8.h"
#include "reports/junit.h"
#include "reports/markdown.h"
#include "reports/report_verdict.h"
#include "reports/verdict_json.h"
#include "reports/word_diff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* A file in memory that has a path. */
struct file {
	int descriptor;
	char path[32];
};

static struct file file_of(struct str text)
{
	struct file f = {.descriptor = memfd_create("input", MFD_CLOEXEC)};
	require(f.descriptor >= 0 && write(f.descriptor, text.data, text.length) == (ssize_t)text.length);
	snprintf(f.path, sizeof(f.path), "/proc/self/fd/%d", f.descriptor);
	return f;
}

/* The part before the next 0xff, taken off *rest. */
static struct str next_part(struct str *rest)
{
	const char *end = rest->length ? memchr(rest->data, 0xff, rest->length) : NULL;
	struct str part = {rest->data, end ? (size_t)(end - rest->data) : rest->length};
	size_t used = part.length + (end != NULL);
	*rest = (struct str){rest->data + used, rest->length - used};
	return part;
}

static void write_forms(const struct verdict *v)
{
	struct buf json = {0}, other = {0};
	struct json_document *document;
	struct error e = {0};
	require(verdict_json(v, true, &json, &e) == 0);
	require(json_parse(buf_str(&json), NULL, JSON_LAST_KEY_WINS, &document, &e) == 0);
	json_free(document);
	require(junit_write(&v, 1, &other, &e) == 0 && utf8_valid(buf_str(&other)));
	require(!memchr(other.data, 0, other.length) && !memchr(other.data, 0x1b, other.length));
	buf_clear(&other);
	require(verdict_markdown(v, &other, &e) == 0 && utf8_valid(buf_str(&other)));
	buf_clear(&other);
	require(report_flips_html(v, NULL, NULL, &other, &e) == 0 && utf8_valid(buf_str(&other)));
	require(!memmem(other.data, other.length, "<script", 7));
	require(v->outcome == OUTCOME_PASS || v->exit_code != 0);
	buf_free(&json);
	buf_free(&other);
}

static void judge(const struct policy *policy, const char *baseline, const char *candidate)
{
	struct answers a = {0}, b = {0};
	struct pairing pairing = {0};
	struct verdict verdict = {0};
	struct error e = {0};
	int status = answers_load(baseline, NULL, &a, &e);
	if (status == 0)
		status = answers_load(candidate, NULL, &b, &e);
	if (status == 0)
		status = pairing_make(&a, &b, NULL, 0, policy, &pairing, &e);
	if (status == 0)
		status = verdict_make(&pairing, policy, &verdict, &e);
	require(status == 0 || e.message[0]);
	if (status == 0)
		write_forms(&verdict);
	verdict_free(&verdict);
	pairing_free(&pairing);
	answers_free(&a);
	answers_free(&b);
}

/* The pieces of a difference are the texts. */
static void compare_words(struct str a, struct str b)
{
	struct word_diff d;
	struct buf before = {0}, after = {0};
	require(word_diff_make(a, b, &d, NULL) == 0);
	for (size_t i = 0; i < d.n; i++) {
		if (d.runs[i].change != WORD_ADDED)
			buf_append_str(&before, d.runs[i].text);
		if (d.runs[i].change != WORD_REMOVED)
			buf_append_str(&after, d.runs[i].text);
	}
	require(str_equal(buf_str(&before), a) && str_equal(buf_str(&after), b));
	word_diff_free(&d);
	buf_free(&before);
	buf_free(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = {(const char *)data, size};
	struct str parts[3] = {next_part(&rest), next_part(&rest), next_part(&rest)};
	struct file files[3] = {file_of(parts[0]), file_of(parts[1]), file_of(parts[2])};
	struct policy policy;
	struct error e = {0};
	policy_init(&policy);
	if (policy_read(&policy, files[0].path, &e) < 0) {
		policy_free(&policy);
		policy_init(&policy);
	}
	judge(&policy, files[1].path, files[2].path);
	compare_words(parts[1], parts[2]);
	policy_free(&policy);
	for (int i = 0; i < 3; i++)
		close(files[i].descriptor);
	return 0;
}
