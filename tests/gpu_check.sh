#!/bin/sh
# The CUDA backend on a GPU: are its numbers right, and how near do they come to what the device can do.
#   tests/gpu_check.sh pack BUILD FOLDER [SANITIZER]   where assay is built with CUDA: gathers all that the check needs, at
#                                          most 64 MiB. compute-sanitizer goes along where it fits: from the folder
#                                          SANITIZER (a toolkit's, or .../site-packages/nvidia/cu13 with Python's package
#                                          nvidia-cuda-sanitizer-api), or that in the PATH or in CUDA's own folders
#   FOLDER/gpu_check.sh run [OUT.json]     on a machine with a GPU and nothing else: at most 8 minutes (fewer with
#                                          GPU_CHECK_SECONDS=N); JSON (default standard output) with what was measured,
#                                          and nothing that was not: null and a reason stand for the rest. OUT.json is
#                                          whole after every part, so what is there when the time ends can be read.
# cuBLASLt (half a gigabyte) and NCCL do not travel: they are looked for on the machine, also among Python's packages.
# Exit code of run: 0, 1 where something fails or had no time (then "complete" is false), 77 without a GPU.
set -eu

limit_bytes=$((64 << 20))
limit_seconds=${GPU_CHECK_SECONDS:-480}

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

# The folder of the compute-sanitizer itself. Toolkits have it beside what it loads, and a script in bin/ that calls it;
# Python's package nvidia-cuda-sanitizer-api has it in bin/, and what it loads there or in lib/.
sanitizer_folder() {
	for folder in "$@"; do
		for place in "$folder" "$folder/compute-sanitizer" "$folder/../compute-sanitizer" "$folder/bin"; do
			if [ -f "$place/compute-sanitizer" ] && [ -n "$(sanitizer_libraries "$place")" ]; then
				(cd "$place" && pwd)
				return
			fi
		done
	done
}

# The folders of what it loads.
sanitizer_libraries() {
	for place in "$1" "$1/../lib"; do
		[ ! -f "$place/libsanitizer-collection.so" ] || echo "$place"
	done
}

sanitizer_here() {
	found=$(command -v compute-sanitizer || true)
	sanitizer_folder ${found:+"$(dirname "$(readlink -f "$found")")"} ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda*
}

bytes_of() {
	du -sb "$1" | cut -f1
}

# What it needs to run on this kind of machine, without its documents and its 32-bit half.
sanitizer_take() {
	mkdir "$2"
	cp -L "$1/compute-sanitizer" "$2/"
	sanitizer_libraries "$1" | while read -r place; do
		for file in "$place"/libsanitizer* "$place"/*TreeLauncher* "$place"/libInterceptorInjection*; do
			[ ! -f "$file" ] || cp -L "$file" "$2/"
		done
	done
	chmod +x "$2"/compute-sanitizer
}

pack_sanitizer() {
	from=$1 folder=$2
	if [ -z "$from" ]; then
		echo "gpu_check.sh: no compute-sanitizer is found here: the machine's own is used, where it has one" >&2
		return
	fi
	sanitizer_take "$from" "$folder/sanitizer"
	bytes=$(bytes_of "$folder")
	if [ "$bytes" -gt "$limit_bytes" ]; then
		rm -r "$folder/sanitizer"
		echo "gpu_check.sh: $from does not fit: with it $folder would hold $bytes bytes" >&2
	fi
}

pack() {
	build=$1 folder=$2 sanitizer=
	source=$(cd "$(dirname "$0")/.." && pwd)
	[ -f "$build/build.ninja" ] || fail "$build: no build folder, build.ninja is not there"
	if [ $# -eq 3 ]; then
		sanitizer=$(sanitizer_folder "$3")
		[ -n "$sanitizer" ] || fail "$3: no compute-sanitizer with its libsanitizer-collection.so in it"
	else
		sanitizer=$(sanitizer_here)
	fi
	# what was packed before is replaced; whatever else somebody keeps is not
	if [ -e "$folder" ] && ! { [ -f "$folder/gpu_check.sh" ] && [ -d "$folder/lib" ]; }; then
		rmdir "$folder" 2>/dev/null || fail "$folder exists, and was not packed by this script: expected a new folder"
	fi
	[ "$(readlink -f "$0")" != "$(readlink -f "$folder/gpu_check.sh")" ] ||
		fail "$folder holds this very script: pack with the one in the source's tests folder"
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
	bytes=$(bytes_of "$folder")
	[ "$bytes" -le "$limit_bytes" ] || fail "$folder holds $bytes bytes, at most $limit_bytes travel"
	pack_sanitizer "$sanitizer" "$folder"
	echo "$folder: $(bytes_of "$folder") bytes"
}

# ---- run: libraries and tools of the machine ----

# Folders where libraries of CUDA may lie that the loader does not know: CUDA's own, and those of Python's packages.
cuda_folders() {
	for root in ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda /usr/local/cuda-*; do
		printf '%s\n' "$root/lib64" "$root/lib" "$root"/targets/*/lib
	done
	{
		for python in python3 python; do
			"$python" -c 'import sys; print("\n".join(p for p in sys.path if p))' 2>/dev/null || true
		done
		printf '%s\n' ${VIRTUAL_ENV:+"$VIRTUAL_ENV"/lib/python3*/site-packages} \
			${CONDA_PREFIX:+"$CONDA_PREFIX"/lib/python3*/site-packages} /usr/local/lib/python3*/*-packages \
			/opt/*/lib/python3*/site-packages /opt/*/.venv/lib/python3*/site-packages
	} | while read -r packages; do
		printf '%s\n' "$packages"/nvidia/*/lib
	done
}

# Adds the folder of the first of these libraries that is found to the loader's, unless it knows one of them. Prints it.
library_path_add() {
	for name in "$@"; do
		if ldconfig -p 2>/dev/null | grep -q "[[:space:]]$name "; then
			echo "the loader's $name"
			return
		fi
		# by the shell itself: there are few, and none that holds a line feed
		found=$(cuda_folders | while read -r folder; do
			if [ -e "$folder/$name" ]; then
				echo "$folder"
				break
			fi
		done)
		if [ -n "$found" ]; then
			LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$found
			echo "$found/$name"
			return
		fi
	done
}

# The machine's own compute-sanitizer, which knows its driver, or the one that was carried along.
sanitizer_find() {
	own=$(command -v compute-sanitizer || true)
	for program in "$own" ${CUDA_HOME:+"$CUDA_HOME/bin/compute-sanitizer"} /usr/local/cuda/bin/compute-sanitizer \
		/usr/local/cuda-*/bin/compute-sanitizer "$here/sanitizer/compute-sanitizer"; do
		if [ -n "$program" ] && [ -x "$program" ]; then
			echo "$program"
			return
		fi
	done
}

# ---- run: the report ----

# What there is of it so far, whole, to OUT.
report_write() {
	{
		cat "$report"
		printf ',\n"seconds": %d, "failed": %s, "complete": %s}\n' "$(($(date +%s) - started))" \
			"$([ "$failed" = 0 ] && echo false || echo true)" "$1"
	} >"$work/whole"
	[ -n "$out" ] || return 0
	# another file that takes its place: no moment finds it in its middle
	if cp "$work/whole" "$out.new" 2>/dev/null && mv "$out.new" "$out" 2>/dev/null; then
		return 0
	fi
	rm -f "$out.new"
	cp "$work/whole" "$out" || {
		cat "$work/whole"
		fail "$out cannot be written: the report is on standard output"
	}
}

# By a signal, with what there is.
ended() {
	trap - TERM INT HUP
	[ -n "$out" ] || cat "$work/whole"
	echo "gpu_check.sh: ended before it was whole" >&2
	exit 1
}

# Text that may stand between the quotes of JSON.
plain() {
	printf '%s' "$1" | LC_ALL=C tr -cd '\040-\176' | sed 's/\\/\\\\/g; s/"/\\"/g'
}

# The end of a file as one line.
tail_of() {
	plain "$(tail -c "$2" "$1" | tr '\n' ' ')"
}

# absent NAME REASON: the part has no result.
absent() {
	printf ',\n"%s": {"result": null, "reason": "%s"}' "$1" "$(plain "$2")" >>"$report"
	report_write false
	echo "$1: no result: $2" >&2
}

# seconds_left CAP: what a part may take, with what is kept for ending it and the report.
seconds_left() {
	left=$((started + limit_seconds - 8 - $(date +%s)))
	[ "$left" -lt "$1" ] || left=$1
	echo "$left"
}

# attempt CAP COMMAND...: what it prints is in $work/out and err. Sets code, took and seconds; false where there is no time.
attempt() {
	seconds=$(seconds_left "$1") before=$(date +%s) code=0
	shift
	[ "$seconds" -ge 5 ] || return 1
	timeout -k 5 "$seconds" "$@" >"$work/out" 2>"$work/err" || code=$?
	took=$(($(date +%s) - before))
}

# What was ended in its middle is no JSON.
is_json() {
	case $(head -c 1 "$1")$(tail -c 3 "$1" | tr -d ' \n') in
	'['*']' | '{'*'}') return 0 ;;
	esac
	return 1
}

# part NAME CAP COMMAND...: runs the command, adds its JSON (or why there is none) to the report.
part() {
	name=$1 cap=$2
	shift 2
	if ! attempt "$cap" "$@"; then
		failed=1 complete=false
		absent "$name" "no time was left"
		return
	fi
	[ "$code" -eq 0 ] || failed=1
	printf ',\n"%s": {"command": "%s", "seconds": %d, "exit_code": %d' "$name" "$(plain "$*")" "$took" "$code" >>"$report"
	case $code in
	0) ;;
	124 | 137)
		complete=false
		printf ', "reason": "ended after %d s"' "$seconds" >>"$report"
		;;
	*) printf ', "error": "%s"' "$(tail_of "$work/err" 600)" >>"$report" ;;
	esac
	if [ "$code" -le 4 ] && is_json "$work/out"; then
		printf ', "result":\n' >>"$report"
		cat "$work/out" >>"$report"
	else
		[ "$code" -eq 0 ] || printf ', "result": null' >>"$report"
		printf ', "output": "%s"' "$(tail_of "$work/out" 2000)" >>"$report"
	fi
	printf '}' >>"$report"
	report_write false
	echo "$name: exit code $code, $took s" >&2
}

# bench NAME CAP OPTION...: a part; shares of what the device can do stand in it.
bench() {
	name=$1 cap=$2
	shift 2
	part "$name" "$cap" "$here/assay" bench --backend cuda --random-weights "$here/billion.json" --kv-memory 8GiB \
		--max-batch-tokens 4096 --concurrency 1,16,64 --input 512 --output 64 --repeat 2 --db "$work/db" --json "$@"
}

# The same products by cuBLASLt. A machine without it is no failure of ours: the program says so before it measures.
library() {
	if ! attempt 20 "$here/assay" bench --backend cuda --model "$here/pocket" --gemm library --input 8 --output 2 \
		--repeat 1 --db "$work/db" --json || [ "$code" -ne 2 ]; then
		bench library 60 --variant bf16/bf16 --gemm library
	else
		absent library "$(tail -c 600 "$work/err" | tr '\n' ' ')"
	fi
}

# check TOOL CAP: the small cases under compute-sanitizer. It passes where it says that it found nothing.
check() {
	if [ -z "$sanitizer" ]; then
		absent "$1" "no compute-sanitizer: not in the PATH, CUDA_HOME or /usr/local/cuda*, and none in this folder"
		return
	fi
	if ! attempt "$2" "$sanitizer" --tool "$1" --error-exitcode 99 "$here/cuda_cases" --small; then
		complete=false
		absent "$1" "no time was left"
		return
	fi
	cat "$work/err" >>"$work/out"
	summary=$(grep -E '(ERROR|RACECHECK) SUMMARY:' "$work/out" | tail -n 1 | sed 's/^=* *//')
	if grep -qiE 'device (is )?not supported|no supported device|unsupported (device|gpu)' "$work/out"; then
		absent "$1" "$sanitizer refuses the device: $(grep -iE 'supported' "$work/out" | head -n 1)"
	elif [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
		complete=false
		absent "$1" "$sanitizer had not ended after $seconds s"
	elif [ -z "$summary" ]; then
		absent "$1" "$sanitizer ends with $code and without a summary: $(tail -c 300 "$work/out" | tr '\n' ' ')"
	else
		[ "$code" -eq 0 ] || failed=1
		printf ',\n"%s": {"command": "%s", "seconds": %d, "exit_code": %d, "result": "%s", "output": "%s"}' "$1" \
			"$(plain "$sanitizer --tool $1 cuda_cases --small")" "$took" "$code" \
			"$([ "$code" -eq 0 ] && plain "$summary" || echo failed)" "$(tail_of "$work/out" 2000)" >>"$report"
		report_write false
		echo "$1: exit code $code, $took s: $summary" >&2
	fi
}

# ---- run ----

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
	report=$work/report started=$(date +%s) failed=0 code=0 complete=true
	trap 'rm -rf "$work"' EXIT
	LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	library_path_add libcublasLt.so.13 libcublasLt.so.12 libcublasLt.so.11 >"$work/cublaslt"
	library_path_add libnccl.so.2 >"$work/nccl"
	export LD_LIBRARY_PATH
	sanitizer=$(sanitizer_find)
	timeout -k 5 60 "$here/assay" bench --machine --backend cuda --json >"$work/machine" 2>"$work/err" || code=$?
	if [ "$code" -ne 0 ]; then
		cat "$work/err" >&2
		[ -z "$made" ] || rm -f "$made"
		echo "gpu_check.sh: nothing was measured: 'assay bench --machine --backend cuda' ends with $code" >&2
		exit $((code == 2 ? 77 : 1))
	fi
	printf '{"date": "%s", "cublaslt": "%s", "nccl": "%s", "compute_sanitizer": "%s", "machine":\n' \
		"$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(tail_of "$work/cublaslt" 300)" "$(tail_of "$work/nccl" 300)" \
		"$(plain "$sanitizer")" >"$report"
	cat "$work/machine" >>"$report"
	report_write false
	trap ended TERM INT HUP

	# What matters most comes first: whatever is slower than thought costs what stands behind it. Most of a benchmark's
	# time goes into its weights, so each variant is a part, and one that takes too long costs itself alone.
	part cases 90 "$here/cuda_cases"
	part pocket 45 "$here/cuda_compare" "$here/pocket" bf16/f32 bf16/bf16 bf16/fp8 fp8/fp8 fp8w/bf16 int4g64/bf16
	bench bench_bf16 60 --variant bf16/bf16
	library
	check memcheck 45
	check racecheck 45
	bench guard 60 --variant bf16/bf16 --guard pages
	bench bench_fp8 60 --variant fp8/fp8
	bench bench_int4 60 --variant int4/fp8
	part billion 120 "$here/cuda_compare" --random "$here/billion.json" bf16/bf16 fp8/fp8 int4/fp8
	check synccheck 30
	part overhead 40 "$here/assay" overhead --backend cuda --model "$here/pocket" --arms pages --blocks 4 \
		--db "$work/db" --json
	part kernels 60 "$here/cuda_cases" --measure
	report_write "$complete"
	[ -n "$out" ] || cat "$work/whole"
	exit "$failed"
}

case ${1:-} in
pack)
	[ $# -eq 3 ] || [ $# -eq 4 ] || fail "usage: $0 pack BUILD FOLDER [SANITIZER]"
	shift
	pack "$@"
	;;
run)
	[ $# -le 2 ] || fail "usage: $0 run [OUT.json]"
	run "${2:-}"
	;;
*) fail "usage: $0 pack BUILD FOLDER [SANITIZER] | run [OUT.json]" ;;
esac
