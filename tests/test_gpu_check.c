/* tests/gpu_check.sh without a GPU: what it packs, and what its report says, with programs in the place of ours that
 * behave as each case wants. What was not measured is null and has a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json_strict.h"
#include "tests/support.h"

const char *const test_program_name = "gpu_check";

#define COUNT(array) (int)(sizeof(array) / sizeof *(array))

/* ---- files ---- */

static const char *folder; /* of the test */

static const char *path_of(const char *name)
{
	static char paths[4][512];
	static int next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", folder, name);
	return path;
}

static void script_write(const char *name, const char *body)
{
	char text[4096];

	snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
	ck_assert_int_eq(chmod(test_write_file(name, text, strlen(text)), 0755), 0);
}

static void script_copy(const char *name)
{
	struct buf text = test_read_file(SOURCE_DIR "/tests/gpu_check.sh");
	ck_assert_int_eq(chmod(test_write_file(name, text.data, text.length), 0755), 0);
	buf_free(&text);
}

/* Runs a command in a bare environment with bin/ in front; its output is in out and err. The exit code. */
static int shell(const char *variables, const char *command)
{
	char line[2048];

	snprintf(line, sizeof line, "cd '%s' && env -i PATH='%s/bin:/usr/bin:/bin' %s %s >out 2>err </dev/null", folder,
		folder, variables, command);
	int status = system(line);
	ck_assert_int_ge(status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect_in(const char *file, const char *piece)
{
	struct buf text = test_read_file(path_of(file));
	ck_assert_msg(strstr(buf_text(&text), piece), "%s: no '%s' in: %s", file, piece, buf_text(&text));
	buf_free(&text);
}

/* ---- a pack ---- */

#define MACHINE "echo '{\"schema_version\": 1, \"machine\": {\"name\": \"made up\"}, \"rows\": []}'"
#define ROWS "echo '{\"schema_version\": 1, \"rows\": []}'"

/* What stands in the place of each program; NULL: all is well. */
struct pack {
	const char *machine, *library, *bench, *cases, *compare;
	const char *sanitizer; /* in the PATH; NULL: none */
	const char *carried;   /* in the pack; NULL: none */
};

static const char *or_else(const char *given, const char *otherwise)
{
	return given ? given : otherwise;
}

static void pack_make(const struct pack *p)
{
	char text[2048];

	folder = scratch_folder();
	script_copy("pack/gpu_check.sh");
	snprintf(text, sizeof text,
		"case \"$*\" in\n*--machine*) %s ;;\n*'--gemm library'*) %s ;;\n*--random-weights*) %s ;;\n*) %s "
		";;\nesac",
		or_else(p->machine, MACHINE), or_else(p->library, ROWS), or_else(p->bench, ROWS), ROWS);
	script_write("pack/assay", text);
	script_write("pack/cuda_cases", or_else(p->cases, "echo '12 cases, 0 failed'"));
	script_write("pack/cuda_compare", or_else(p->compare, "echo '[]'"));
	if (p->sanitizer)
		script_write("bin/compute-sanitizer", p->sanitizer);
	if (p->carried)
		script_write("pack/sanitizer/compute-sanitizer", p->carried);
}

/* The machine's own compute-sanitizer would be found in spite of the PATH. */
static bool machine_has_sanitizer(void)
{
	return access("/usr/local/cuda/bin/compute-sanitizer", X_OK) == 0;
}

/* The text that stands at a path like "memcheck.reason"; "null", "true" and numbers as they are written. */
static void expect_member(const struct json *at, const char *path, const char *expected)
{
	char name[64], text[4096] = "";

	for (const char *rest = path; at && rest; rest = strchr(rest, '.') ? strchr(rest, '.') + 1 : NULL) {
		snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "."), rest);
		at = json_get(at, name);
	}
	ck_assert_msg(at != NULL, "%s is missing", path);
	if (json_is(at, JSON_NULL) || json_is(at, JSON_TRUE) || json_is(at, JSON_FALSE))
		snprintf(text, sizeof text, "%s",
			json_is(at, JSON_NULL)           ? "null"
				: json_is(at, JSON_TRUE) ? "true"
							 : "false");
	else
		snprintf(text, sizeof text, "%.*s", STR_ARG(at->text));
	ck_assert_msg(strstr(text, expected), "%s is '%s', expected '%s'", path, text, expected);
}

static struct json_document *report_read(const char *name)
{
	struct buf text = test_read_file(path_of(name));
	struct json_document *document;

	CHECK_OK(json_parse(buf_str(&text), name, JSON_REFUSE_DOUBLED_KEYS, &document, &test_error));
	buf_free(&text);
	return document;
}

/* ---- reports ---- */

#define CLEAN "echo '========= COMPUTE-SANITIZER'; echo '========= ERROR SUMMARY: 0 errors'"

static const struct {
	const char *name;
	struct pack pack;
	const char *variables;
	int exit_code;
	const char *members[10][2]; /* path, piece of its text */
} reports[] = {
	{"all is well", {.sanitizer = CLEAN}, "", 0,
		{{"machine.machine.name", "made up"}, {"cases.output", "12 cases, 0 failed"}, {"cases.exit_code", "0"},
			{"library.exit_code", "0"}, {"memcheck.result", "ERROR SUMMARY: 0 errors"},
			{"synccheck.result", "0 errors"}, {"failed", "false"}, {"complete", "true"}}},
	{"racecheck has a summary of its own",
		{.sanitizer = "case \"$*\" in *racecheck*) echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 "
			      "errors, "
			      "0 warnings)' ;; *) " CLEAN " ;; esac"},
		"", 0, {{"racecheck.result", "0 hazards displayed"}, {"failed", "false"}}},
	{"no sanitizer", {0}, "", 0,
		{{"memcheck.result", "null"}, {"memcheck.reason", "no compute-sanitizer"}, {"racecheck.result", "null"},
			{"compute_sanitizer", ""}, {"failed", "false"}, {"complete", "true"}}},
	{"a sanitizer in the pack", {.carried = CLEAN}, "", 0,
		{{"compute_sanitizer", "pack/sanitizer/compute-sanitizer"}, {"memcheck.result", "0 errors"}}},
	{"a sanitizer that refuses the device",
		{.sanitizer = "echo '========= Error: Device not supported. Please refer to the documentation'; exit "
			      "1"},
		"", 0,
		{{"memcheck.result", "null"},
			{"memcheck.reason", "refuses the device: ========= Error: Device not supp"},
			{"failed", "false"}}},
	{"a sanitizer that cannot begin",
		{.sanitizer = "echo '========= Error: No attachable process found'; exit 255"}, "", 0,
		{{"memcheck.result", "null"},
			{"memcheck.reason", "ends with 255 and without a summary: ========= Err"}}},
	{"a sanitizer that says nothing", {.sanitizer = "exit 0"}, "", 0,
		{{"memcheck.result", "null"}, {"memcheck.reason", "without a summary"}}},
	{"a sanitizer that finds something",
		{.sanitizer = "echo '========= Invalid __global__ write of size 4'; echo '========= ERROR SUMMARY: 1 "
			      "error'; "
			      "exit 99"},
		"", 1,
		{{"memcheck.result", "failed"}, {"memcheck.exit_code", "99"}, {"memcheck.output", "__global__ write"},
			{"failed", "true"}, {"complete", "true"}}},
	{"no cuBLASLt",
		{.library = "echo 'assay: --backend cuda: products by cuBLASLt: libcublasLt.so.13: no' >&2; exit 2"},
		"", 0,
		{{"library.result", "null"}, {"library.reason", "products by cuBLASLt: libcublasLt.so.13"},
			{"failed", "false"}}},
	{"cuBLASLt that fails", {.library = "echo 'assay: a product: error 7' >&2; exit 4"}, "", 1,
		{{"library.result", "null"}, {"library.error", "a product: error 7"}, {"failed", "true"}}},
	{"a case that fails", {.cases = "echo 'FAILED  \"x\\y\"'; printf 'tab\\there\\nand \\303\\244\\n'; exit 1"}, "",
		1,
		{{"cases.result", "null"}, {"cases.output", "FAILED  \"x\\y\" tabhere and"}, {"cases.exit_code", "1"},
			{"pocket.exit_code", "0"}, {"failed", "true"}}},
	{"half a document", {.compare = "printf '[{\"variant\": '; exit 4"}, "", 1,
		{{"pocket.result", "null"}, {"pocket.output", "[{\"variant\": "}, {"failed", "true"}}},
	{"a program that is killed", {.bench = "kill -9 $$"}, "", 1,
		{{"bench_bf16.result", "null"}, {"failed", "true"}, {"cases.exit_code", "0"}}},
	{"no time", {.sanitizer = CLEAN}, "GPU_CHECK_SECONDS=9", 1,
		{{"cases.result", "null"}, {"cases.reason", "no time was left"}, {"memcheck.reason", "no time"},
			{"failed", "true"}, {"complete", "false"}}},
};

START_TEST(the_report_says_what_was_measured)
{
	if (!reports[_i].pack.sanitizer && machine_has_sanitizer())
		SKIP("this machine has compute-sanitizer");
	pack_make(&reports[_i].pack);
	int code = shell(reports[_i].variables, "pack/gpu_check.sh run report.json");
	ck_assert_msg(code == reports[_i].exit_code, "%s: exit code %d", reports[_i].name, code);
	struct json_document *document = report_read("report.json");
	for (int m = 0; m < COUNT(reports[_i].members) && reports[_i].members[m][0]; m++)
		expect_member(json_root(document), reports[_i].members[m][0], reports[_i].members[m][1]);
	json_free(document);
	ck_assert(!file_exists(path_of("report.json.new")));
}
END_TEST

START_TEST(the_report_goes_to_standard_output)
{
	pack_make(&(struct pack){.sanitizer = CLEAN});
	ck_assert_int_eq(shell("", "pack/gpu_check.sh run"), 0);
	struct json_document *document = report_read("out");
	expect_member(json_root(document), "complete", "true");
	json_free(document);
}
END_TEST

/* Killed in the middle of a part, it leaves what came before, whole. */
START_TEST(what_was_measured_is_kept)
{
	pack_make(&(struct pack){
		.sanitizer = CLEAN, .compare = "read -r _ _ _ script _ </proc/$PPID/stat; kill -9 \"$script\""});
	ck_assert_int_ne(shell("", "pack/gpu_check.sh run report.json"), 0);
	struct json_document *document = report_read("report.json");
	expect_member(json_root(document), "cases.output", "12 cases");
	expect_member(json_root(document), "complete", "false");
	ck_assert(!json_get(json_root(document), "pocket"));
	json_free(document);
}
END_TEST

/* ---- nothing to measure ---- */

START_TEST(a_machine_without_a_device_is_told)
{
	pack_make(&(struct pack){
		.machine = "echo 'assay: --backend cuda: no CUDA device: the driver knows of none' >&2; exit 2"});
	ck_assert_int_eq(shell("", "pack/gpu_check.sh run report.json"), 77);
	expect_in("err", "no CUDA device: the driver knows of none");
	expect_in("err", "nothing was measured");
	ck_assert(!file_exists(path_of("report.json")));
	test_write_file("kept.json", "{}", 2);
	ck_assert_int_eq(shell("", "pack/gpu_check.sh run kept.json"), 77);
	expect_in("kept.json", "{}");
	struct stat out;
	ck_assert_int_eq(stat(path_of("out"), &out), 0);
	ck_assert_int_eq((int)out.st_size, 0);
}
END_TEST

/* The program itself, on this machine. */
START_TEST(our_program_says_what_is_missing)
{
	if (access("/dev/nvidiactl", F_OK) == 0)
		SKIP("this machine has a device");
	pack_make(&(struct pack){0});
	ck_assert_int_eq(unlink(path_of("pack/assay")), 0);
	ck_assert_int_eq(symlink(ASSAY_PROGRAM, path_of("pack/assay")), 0);
	ck_assert_int_eq(shell("", "pack/gpu_check.sh run report.json"), 77);
	expect_in("err", "--backend cuda: ");
	expect_in("err", "nothing was measured");
	ck_assert(!file_exists(path_of("report.json")));
}
END_TEST

START_TEST(a_report_that_cannot_be_written_is_told_first)
{
	pack_make(&(struct pack){.machine = "echo measured >>measured"});
	ck_assert_int_eq(shell("", "pack/gpu_check.sh run missing/report.json"), 1);
	expect_in("err", "missing/report.json cannot be written");
	ck_assert(!file_exists(path_of("measured")));
}
END_TEST

/* ---- packing ---- */

/* A build folder, with programs that are of no use. */
static void build_make(void)
{
	static const char ninja[] = "build tests/cuda_on_gpu/cuda_cases: made up";

	folder = scratch_folder();
	script_copy("source/tests/gpu_check.sh");
	test_write_file("source/datasets/pocket/model/config.json", "{}", 2);
	test_write_file("build/build.ninja", ninja, sizeof ninja - 1);
	test_write_file("build/tests/cuda_on_gpu/empty", "", 0);
	script_write("bin/ninja", "exit 0");
	ck_assert_int_eq(
		shell("",
			"sh -c 'for p in assay tests/cuda_on_gpu/cuda_cases tests/cuda_on_gpu/cuda_compare; do "
			"cp /bin/ls build/$p; done'"),
		0);
}

static void sanitizer_make(off_t library_bytes)
{
	script_write("toolkit/compute-sanitizer/compute-sanitizer", "exit 0");
	ck_assert_int_eq(
		truncate(test_write_file("toolkit/compute-sanitizer/libsanitizer-collection.so", "", 0), library_bytes),
		0);
	test_write_file("toolkit/compute-sanitizer/manual.pdf", "x", 1);
	script_write("toolkit/bin/compute-sanitizer", "exit 0");
}

#define PACK "source/tests/gpu_check.sh pack build pack"

START_TEST(a_pack_holds_what_the_check_needs)
{
	static const char *const files[] = {"pack/gpu_check.sh", "pack/assay", "pack/cuda_cases", "pack/cuda_compare",
		"pack/billion.json", "pack/pocket/config.json"};

	build_make();
	for (int again = 0; again < 2; again++) {
		ck_assert_int_eq(shell("", PACK), 0);
		for (int i = 0; i < COUNT(files); i++)
			ck_assert_msg(file_exists(path_of(files[i])), "%s", files[i]);
		expect_in("out", " bytes");
		ck_assert(!file_exists(path_of("pack/lib/libc.so.6")));
	}
	struct json_document *document = report_read("pack/billion.json");
	expect_member(json_root(document), "model_type", "llama");
	json_free(document);
	test_write_file("mine/notes", "x", 1);
	ck_assert_int_eq(shell("", "source/tests/gpu_check.sh pack build mine"), 1);
	expect_in("err", "mine exists, and was not packed by this script");
	ck_assert_int_eq(shell("", "source/tests/gpu_check.sh pack mine pack"), 1);
	expect_in("err", "no build folder");
}
END_TEST

START_TEST(a_sanitizer_goes_along_where_it_fits)
{
	static const char *const ways[][2] = {
		{"", PACK " toolkit"}, {"", PACK " toolkit/compute-sanitizer"}, {"CUDA_HOME=toolkit", PACK}};

	build_make();
	sanitizer_make(1 << 20);
	for (int i = 0; i < COUNT(ways); i++) {
		ck_assert_int_eq(shell(ways[i][0], ways[i][1]), 0);
		ck_assert(file_exists(path_of("pack/sanitizer/compute-sanitizer")));
		ck_assert(file_exists(path_of("pack/sanitizer/libsanitizer-collection.so")));
		ck_assert(!file_exists(path_of("pack/sanitizer/manual.pdf")));
	}
	sanitizer_make(65 << 20);
	ck_assert_int_eq(shell("", PACK " toolkit"), 0);
	expect_in("err", "does not fit");
	ck_assert(!file_exists(path_of("pack/sanitizer/compute-sanitizer")));
	ck_assert_int_eq(shell("", PACK " build"), 1);
	expect_in("err", "build: no compute-sanitizer");
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *report = test_case(suite, "report", 60);
	tcase_add_loop_test(report, the_report_says_what_was_measured, 0, COUNT(reports));
	tcase_add_test(report, the_report_goes_to_standard_output);
	tcase_add_test(report, what_was_measured_is_kept);
	tcase_add_test(report, a_machine_without_a_device_is_told);
	tcase_add_test(report, our_program_says_what_is_missing);
	tcase_add_test(report, a_report_that_cannot_be_written_is_told_first);
	TCase *packing = test_case(suite, "packing", 60);
	tcase_add_test(packing, a_pack_holds_what_the_check_needs);
	tcase_add_test(packing, a_sanitizer_goes_along_where_it_fits);
}
