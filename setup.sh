#!/usr/bin/env bash
# Everything from a fresh Debian 12 machine to a program, a demonstration or a test run. See `./setup.sh help`.
set -euo pipefail

root=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
build_packages=(gcc libc6-dev meson ninja-build pkg-config libpcre2-dev libsqlite3-dev libssl-dev
	libutf8proc-dev libxxhash-dev zlib1g-dev gnuplot-nox)
test_packages=(check)

usage() {
	cat <<'END'
usage: ./setup.sh build | demo | test | help

  build   install what the compilation needs, compile build/assay
  demo    build, then evaluate the bundled pocket model under three variants; needs no network once built
  test    build, and build again with sanitizers in build-asan; run all tests of both

Packages that are missing are installed with apt-get, as root or through sudo. Nothing is installed when all are there.
END
}

say() {
	printf '==> %s\n' "$*" >&2
}

fail() {
	printf 'setup.sh: %s\n' "$*" >&2
	exit 1
}

# quietly LOG COMMAND...: the command's output goes to LOG and is shown only when the command fails.
quietly() {
	local log=$1 status=0
	shift
	"$@" >"$log" 2>&1 </dev/null || status=$?
	if ((status != 0)); then
		cat -- "$log" >&2
	fi
	return "$status"
}

apt_install() {
	local as_root=() apt log status=0
	if ((EUID != 0)); then
		command -v sudo >/dev/null ||
			fail "missing packages, and neither root nor sudo to install them. As root: apt-get install $*"
		as_root=(sudo)
		# A password is asked for here, where it can be seen, not inside a log.
		sudo -n true 2>/dev/null || sudo -v || fail "sudo refused. As root: apt-get install $*"
	fi
	apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=600)
	log=$(mktemp)
	# A fresh machine has no package lists, an old one has stale ones: fetch them only when the first try fails.
	"${apt[@]}" install --no-install-recommends "$@" >"$log" 2>&1 </dev/null ||
		{ quietly "$log" "${apt[@]}" update && quietly "$log" "${apt[@]}" install --no-install-recommends "$@"; } ||
		status=$?
	rm -f -- "$log"
	((status == 0)) || fail "apt-get could not install: $*"
}

need_packages() {
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		say "no Debian: the packages $* are taken to be there"
		return
	fi
	local package missing=()
	for package in "$@"; do
		[[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
	done
	if ((${#missing[@]} > 0)); then
		say "installing ${missing[*]}"
		apt_install "${missing[@]}"
	fi
}

# configure FOLDER OPTION...: a build folder of this source tree; one that was copied from elsewhere is made anew.
configure() {
	local folder=$root/$1 made_for
	shift
	made_for=$(cat -- "$folder/source-folder" 2>/dev/null) || made_for=
	if [[ -f $folder/build.ninja && $made_for == "$root" ]]; then
		return
	fi
	rm -rf -- "$folder"
	mkdir -p -- "$folder"
	quietly "$folder/setup.log" meson setup "$folder" "$root" "$@" || fail "meson could not configure $folder"
	printf '%s\n' "$root" >"$folder/source-folder"
}

# compile FOLDER TARGET...
compile() {
	local folder=$root/$1
	shift
	quietly "$folder/compile.log" ninja --quiet -C "$folder" "$@" || fail "compilation failed in $folder"
}

build() {
	need_packages "${build_packages[@]}"
	say "compiling build/assay"
	configure build
	compile build assay
}

demo() {
	local status=0
	build
	say "evaluating the pocket model"
	"$root/build/assay" run --variant bf16/bf16 --variant fp8/fp8 --variant int4/fp8 --suite gsm8k,arc_easy,recall ||
		status=$?
	((status == 0)) || exit "$status"
	cat <<END
  $root/build/assay list
  $root/build/assay --help
END
}

# with_tests FOLDER OPTION...: configured and compiled with its tests.
with_tests() {
	local folder=$1
	configure "$@" -Dtests=enabled
	# A folder that was configured before Check was there has none.
	if ! grep -q 'test_house' "$root/$folder/build.ninja"; then
		quietly "$root/$folder/setup.log" meson setup --reconfigure "$root/$folder" "$root" -Dtests=enabled ||
			fail "meson could not configure the tests of $folder"
	fi
	say "compiling $folder"
	compile "$folder"
}

passed=0 failed=0 skipped=0 failures=

# note_failures FOLDER: prints what its failed tests printed last, adds their names to failures.
note_failures() {
	local folder=$1 log=$root/$1/meson-logs/testlog.txt names
	names=$(awk -v part=names -v folder="$folder" -f "$root/tests/failed_tests.awk" "$log") || names=
	if [[ -z $names ]]; then
		names="FAILED $folder: meson test named no test"
		tail -n 100 -- "$root/$folder/test.log"
	else
		awk -v part=logs -v folder="$folder" -f "$root/tests/failed_tests.awk" "$log"
	fi
	failures+=$names$'\n'
}

# run_tests FOLDER: adds to passed, failed, skipped and failures.
run_tests() {
	local folder=$root/$1 wrapper=() status=0 lines=0 bad_lines=0 ok_programs skipped_programs bad_programs p f s
	local failed_before=$failed
	local log=$folder/meson-logs/testlog.json results=$folder/test-results
	say "testing $1"
	# Where addresses are spread wider than 28 bits, gcc 12's AddressSanitizer finds its shadow memory taken now and then.
	if (($(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0) > 28)) && setarch -R true 2>/dev/null; then
		wrapper=(--wrapper 'setarch -R')
	fi
	rm -f -- "$log" "$folder/meson-logs/testlog.txt"
	: >"$results"
	ASSAY_TEST_RESULTS=$results quietly "$folder/test.log" \
		meson test -C "$folder" --no-rebuild --print-errorlogs "${wrapper[@]}" || status=$?
	while read -r p f s; do
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) lines=$((lines + 1))
		((f == 0)) || bad_lines=$((bad_lines + 1))
	done <"$results"
	# Programs that died before they could tell, or after they had told of no failure, are failures themselves;
	# programs that never tell count as one test, and so do those that were skipped as a whole.
	ok_programs=$(grep -c '"result": "OK"' "$log") || ok_programs=0
	skipped_programs=$(grep -c '"result": "SKIP"' "$log") || skipped_programs=0
	bad_programs=$(grep -vcE '"result": "(OK|SKIP)"' "$log") || bad_programs=0
	skipped=$((skipped + skipped_programs))
	((bad_programs <= bad_lines)) || failed=$((failed + bad_programs - bad_lines))
	((ok_programs <= lines - bad_lines)) || passed=$((passed + ok_programs - lines + bad_lines))
	((status == 0 || failed > failed_before)) || failed=$((failed + 1))
	((failed == failed_before)) || note_failures "$1"
}

run_all_tests() {
	need_packages "${build_packages[@]}" "${test_packages[@]}"
	with_tests build
	# without the kernels for a GPU, which nothing can run here; their CUDA sources are tested on the CPU in both builds
	# and with line numbers only, which is all that a finding shows: half the time of compilation
	with_tests build-asan -Doptimization=1 -Ddebug=false -Dc_args=-g1 -Dcpp_args=-g1 \
		-Db_sanitize=address,undefined -Dcuda=disabled
	run_tests build
	run_tests build-asan
	((passed + failed + skipped > 0)) || fail "no test ran"
	# Whoever sees no more than the end of the standard output must learn what failed.
	printf '%s' "$failures"
	printf '%d passed, %d failed' "$passed" "$failed"
	((skipped == 0)) || printf ', %d skipped' "$skipped"
	printf '\n'
	((failed == 0))
}

if (($# != 1)); then
	usage >&2
	exit 2
fi
case $1 in
build)
	build
	say "$root/build/assay is ready; ./setup.sh demo shows what it does"
	;;
demo) demo ;;
test) run_all_tests ;;
help | -h | --help) usage ;;
*)
	usage >&2
	exit 2
	;;
esac
