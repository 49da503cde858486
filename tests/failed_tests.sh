#!/bin/sh
# Whoever reads only what setup.sh prints learns which tests failed: failed_tests.awk on a log as meson writes it.
# Usage: failed_tests.sh failed_tests.awk
set -eu

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# section NUMBER NAME RESULT, with what it printed on standard input
section() {
	printf '==================================== %d/4 ====================================\n' "$1"
	printf 'test:         %s\nstart time:   02:44:26\nduration:     0.71s\nresult:       %s\n' "$2" "$3"
	printf 'command:      LD_LIBRARY_PATH=/b /b/test_%s\n' "$2"
	printf '%s\n' '----------------------------------- stdout -----------------------------------'
	cat
	printf '==============================================================================\n\n'
}

{
	printf 'Log of Meson test suite run on 2026-11-30T02:44:26.430932\n\n'
	printf 'x.c:1:F:no:test:0: this passed\n' | section 1 good 'exit status 0'
	printf 'no nvcc\n' | section 2 spills 'exit status 77'
	{
		seq 200
		printf '%s\n' '98%: Checks: 69, Failures: 2, Errors: 0' '../tests/test_bad.c:4:F:exams:refused:5: is empty' \
			'and a second line: it is no name' '../tests/test_bad.c:9:E:exams:dies:0: (after this point) signal 11'
	} | section 3 bad 'exit status 1'
	: | section 4 dead 'killed by signal 6 SIGABRT'
} >"$log"

names='FAILED build/bad: exit status 1
FAILED build/bad: ../tests/test_bad.c:4:F:exams:refused:5: is empty
FAILED build/bad: ../tests/test_bad.c:9:E:exams:dies:0: (after this point) signal 11
FAILED build/dead: killed by signal 6 SIGABRT'
found=$(awk -v part=names -v folder=build -f "$1" "$log")
if [ "$found" != "$names" ]; then
	printf 'names:\n%s\nexpected:\n%s\n' "$found" "$names"
	exit 1
fi

found=$(awk -v part=logs -v folder=build -f "$1" "$log")
expected=$(
	echo '---- build/bad: the end of its output'
	seq 105 200
	printf '%s\n' '98%: Checks: 69, Failures: 2, Errors: 0' '../tests/test_bad.c:4:F:exams:refused:5: is empty' \
		'and a second line: it is no name' '../tests/test_bad.c:9:E:exams:dies:0: (after this point) signal 11'
	echo '---- build/dead: the end of its output'
	printf '%s\n' '----------------------------------- stdout -----------------------------------'
)
if [ "$found" != "$expected" ]; then
	printf 'logs:\n%s\n' "$found"
	exit 1
fi
[ -z "$(awk -v part=names -v folder=b -f "$1" /dev/null)" ]
