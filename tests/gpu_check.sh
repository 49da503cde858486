#!/bin/sh
# The CUDA backend on a GPU: are its numbers right, and how near do they come to what the device can do.
#   tests/gpu_check.sh pack BUILD FOLDER   where assay is built with CUDA: gathers all that the check needs, at most 64 MiB
#   FOLDER/gpu_check.sh run [OUT.json]     on a machine with a GPU and nothing else: at most 8 minutes; JSON (default
#                                          standard output) with what was measured, and nothing that was not
# Exit code of run: 0, 1 where something fails, 77 without a GPU.
set -eu

limit_bytes=$((64 << 20))
limit_seconds=480

fail() {
	echo "gpu_check.sh: $*" >&2
	exit 1
}

# ---- pack ----

# Shared libraries of a program but the C library's own and the driver's: those are the machine's.
libraries_of() {
	ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
		grep -Ev '/(libc|libm|libdl|librt|libpthread|libcuda)\.so' || true
}

pack() {
	build=$1 folder=$2
	source=$(cd "$(dirname "$0")/.." && pwd)
	[ -f "$build/build.ninja" ] || fail "$build: no build folder, build.ninja is not there"
	# what was packed before is replaced; whatever else somebody keeps is not
	if [ -e "$folder" ] && ! { [ -f "$folder/gpu_check.sh" ] && [ -d "$folder/lib" ]; }; then
		rmdir "$folder" 2>/dev/null || fail "$folder exists, and was not packed by this script: expected a new folder"
	fi
	grep -q cuda_on_gpu/cuda_cases "$build/build.ninja" ||
		fail "$build has no CUDA backend with tests: configure it with -Dcuda=enabled -Dtests=enabled"
	ninja -C "$build" assay tests/cuda_on_gpu/cuda_cases tests/cuda_on_gpu/cuda_compare
	rm -rf "$folder"
	mkdir -p "$folder/lib"
	cp "$0" "$folder/gpu_check.sh"
	for program in assay tests/cuda_on_gpu/cuda_cases tests/cuda_on_gpu/cuda_compare; do
		cp "$build/$program" "$folder/"
		libraries_of "$build/$program" | while read -r library; do cp -L "$library" "$folder/lib/"; done
	done
	strip "$folder/assay" "$folder/cuda_cases" "$folder/cuda_compare"
	cp -r "$source/datasets/pocket/model" "$folder/pocket"
	cat >"$folder/billion.json" <<'END'
{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 32000,
"max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
"torch_dtype": "bfloat16"}
END
	bytes=$(du -sb "$folder" | cut -f1)
	[ "$bytes" -le "$limit_bytes" ] || fail "$folder holds $bytes bytes, at most $limit_bytes travel"
	echo "$folder: $bytes bytes"
}

# ---- run ----

# seconds_left CAP: what this part may take.
seconds_left() {
	left=$((started + limit_seconds - $(date +%s)))
	[ "$left" -lt "$1" ] || left=$1
	echo "$left"
}

# part NAME CAP COMMAND...: runs the command, adds its JSON (or why there is none) to the report.
part() {
	name=$1 cap=$2
	shift 2
	seconds=$(seconds_left "$cap") before=$(date +%s) code=0
	if [ "$seconds" -lt 5 ]; then
		code=124
	else
		timeout -k 5 "$seconds" "$@" >"$work/out" 2>"$work/err" || code=$?
	fi
	took=$(($(date +%s) - before))
	printf ',\n"%s": {"command": "%s", "seconds": %d, "exit_code": %d' "$name" "$(plain "$*")" "$took" "$code" >>"$report"
	if [ "$code" -ne 0 ]; then
		# a machine without the library is no failure of ours
		[ "$name" = library ] && [ "$code" -eq 2 ] || failed=1
		printf ', "error": "%s"' "$(plain "$(tail -c 600 "$work/err" | tr '\n' ' ')")" >>"$report"
	fi
	# what was ended in its middle is no JSON
	case $code$(head -c 1 "$work/out" 2>/dev/null)$(tail -c 3 "$work/out" 2>/dev/null | tr -d ' \n') in
	[0-4]'['*']' | [0-4]'{'*'}')
		printf ', "result":\n' >>"$report"
		cat "$work/out" >>"$report"
		;;
	*) [ ! -s "$work/out" ] || printf ', "output": "%s"' "$(plain "$(tail -c 2000 "$work/out" | tr '\n' ';')")" >>"$report" ;;
	esac
	printf '}' >>"$report"
	: >"$work/out"
	echo "$name: exit code $code, $took s" >&2
}

# Text that may stand between the quotes of JSON.
plain() {
	printf '%s' "$1" | LC_ALL=C tr -cd '\040-\176' | sed 's/\\/\\\\/g; s/"/\\"/g'
}

# bench NAME CAP OPTION...: a part; shares of what the device can do stand in it.
bench() {
	name=$1 cap=$2
	shift 2
	part "$name" "$cap" "$here/assay" bench --backend cuda --random-weights "$here/billion.json" --kv-memory 8GiB \
		--max-batch-tokens 4096 --concurrency 1,16,64 --input 512 --output 64 --repeat 2 --db "$work/db" --json "$@"
}

run() {
	here=$(cd "$(dirname "$0")" && pwd)
	out=${1:-}
	[ -x "$here/assay" ] || fail "$here has no programs to run: expected a folder that 'pack' made"
	# minutes of a GPU are not to end in a file that cannot be written
	made=
	if [ -n "$out" ]; then
		[ -e "$out" ] || made=$out
		(: >>"$out") 2>/dev/null || fail "$out cannot be written"
	fi
	work=$(mktemp -d)
	report=$work/report started=$(date +%s) failed=0
	trap 'rm -rf "$work"' EXIT
	LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
	code=0
	timeout -k 5 60 "$here/assay" bench --machine --backend cuda --json >"$work/machine" 2>"$work/err" || code=$?
	if [ "$code" -ne 0 ]; then
		cat "$work/err" >&2
		[ -z "$made" ] || rm -f "$made"
		echo "gpu_check.sh: nothing was measured: 'assay bench --machine --backend cuda' ends with $code" >&2
		exit $((code == 2 ? 77 : 1))
	fi
	printf '{"date": "%s", "machine":\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >"$report"
	cat "$work/machine" >>"$report"

	# What matters most comes first: whatever is slower than thought costs what stands behind it. Most of a benchmark's
	# time goes into its weights, so each variant is a part, and one that takes too long costs itself alone.
	part cases 100 "$here/cuda_cases"
	part pocket 60 "$here/cuda_compare" "$here/pocket" bf16/f32 bf16/bf16 bf16/fp8 fp8/fp8 fp8w/bf16 int4g64/bf16
	bench bench_bf16 70 --variant bf16/bf16
	bench guard 70 --variant bf16/bf16 --guard pages
	bench library 70 --variant bf16/bf16 --gemm library
	bench bench_fp8 70 --variant fp8/fp8
	bench bench_int4 70 --variant int4/fp8
	part overhead 40 "$here/assay" overhead --backend cuda --model "$here/pocket" --arms pages --blocks 4 \
		--db "$work/db" --json
	part billion 150 "$here/cuda_compare" --random "$here/billion.json" bf16/bf16 fp8/fp8 int4/fp8
	part kernels 60 "$here/cuda_cases" --measure
	if command -v compute-sanitizer >/dev/null; then
		part sanitizer 60 compute-sanitizer --error-exitcode 1 "$here/cuda_cases" --small
	else
		printf ',\n"sanitizer": {"error": "no compute-sanitizer on this machine"}' >>"$report"
	fi
	printf ',\n"seconds": %d, "failed": %s}\n' "$(($(date +%s) - started))" "$([ "$failed" = 0 ] && echo false || echo true)" \
		>>"$report"
	if [ -n "$out" ]; then
		cp "$report" "$out" || {
			cat "$report"
			fail "$out cannot be written: the report is on standard output"
		}
	else
		cat "$report"
	fi
	exit "$failed"
}

case ${1:-} in
pack)
	[ $# -eq 3 ] || fail "usage: $0 pack BUILD FOLDER"
	pack "$2" "$3"
	;;
run)
	[ $# -le 2 ] || fail "usage: $0 run [OUT.json]"
	run "${2:-}"
	;;
*) fail "usage: $0 pack BUILD FOLDER | run [OUT.json]" ;;
esac
