#!/bin/sh
# Every exit code, as a script of CI meets it: runs of the pocket model, gates on them. Usage: exit_codes.sh ASSAY
set -u
assay=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
db=$work/assay.db
failures=0

# expect CODE NAME COMMAND...
expect() {
	wanted=$1 name=$2
	shift 2
	"$@" >"$work/out" 2>"$work/err"
	code=$?
	if [ "$code" -eq "$wanted" ]; then
		echo "ok: $name: exit $code"
	else
		echo "NOT OK: $name: exit $code, expected $wanted"
		cat "$work/out" "$work/err"
		failures=$((failures + 1))
	fi
}

# A run that is interrupted while it works: once its first answers are stored, whatever the machine's speed. One that was
# through before the signal came is tried again in a store of its own.
interrupted() {
	for attempt in 1 2 3 4 5 6 7 8 9; do
		store=$work/interrupted-$attempt.db
		"$assay" run --suite gsm8k --db "$store" &
		run=$!
		while kill -0 "$run" 2>/dev/null; do
			"$assay" list --json --db "$store" 2>/dev/null | grep -q '"samples": [1-9]' && break
			sleep 0.1
		done
		kill -INT "$run" 2>/dev/null
		wait "$run"
		code=$?
		[ "$code" -eq 0 ] || return "$code"
	done
	return 0
}

"$assay" run --suite gsm8k --variant bf16/bf16 --variant int4/bf16 --db "$db" >"$work/out" 2>&1 || {
	cat "$work/out"
	exit 1
}
gate() {
	"$assay" gate --db "$db" --baseline latest:bf16/bf16 --candidate "latest:$1" --margin "$2"
}
drop=$("$assay" compare --json --db "$db" latest:bf16/bf16 latest:int4/bf16 |
	sed -n 's/.*"pooled": {[^}]*"drop": \([0-9.e-]*\),.*/\1/p')
points=$(awk "BEGIN { printf \"%.6f\", 100 * $drop }")
: >"$work/nothing.jsonl"
mkdir -p "$work/data/gsm8k"
cp "$work/nothing.jsonl" "$work/data/gsm8k/test.jsonl"
cp "$work/nothing.jsonl" "$work/data/gsm8k/train.jsonl"
head -c 20000 "$db" >"$work/broken.db"

expect 0 "a variant against itself passes" gate bf16/bf16 1
expect 1 "more is lost than was tolerated" gate int4/bf16 0.01
expect 2 "no such variant" gate int5/bf16 1
expect 2 "no such CUDA device, or no CUDA" "$assay" generate --backend cuda --device 1023 --prompt x
grep -qE 'no CUDA device|this machine has|this build has no CUDA backend' "$work/err" || {
	echo "NOT OK: what is missing is not named"
	cat "$work/err"
	failures=$((failures + 1))
}
expect 2 "a CUDA device for the CPU" "$assay" generate --device 1 --prompt x
expect 3 "the drop lies at the margin" gate int4/bf16 "$points"
expect 4 "a damaged store" "$assay" gate --baseline "$work/broken.db:1:bf16/bf16" --candidate "$db:1:bf16/bf16"
expect 5 "an empty file of answers" "$assay" gate --db "$db" --baseline latest:bf16/bf16 --candidate "$work/nothing.jsonl"
expect 5 "an empty data set" "$assay" run --suite gsm8k --data "$work/data" --db "$db"
expect 130 "an interrupted run" interrupted
exit "$failures"
