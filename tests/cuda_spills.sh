#!/bin/sh
# No kernel spills registers to memory: reads what ptxas reported when the kernels were compiled. Skipped (77) where
# there was no nvcc. Usage: cuda_spills.sh REPORT...
set -u

# Prints each function that spills, by its file, and how many were looked at; fails where one spills or a file has none.
spills() {
	awk '
	FNR == 1 { files[++n_files] = FILENAME }
	/Function properties for/ { name = $NF }
	/bytes spill stores/ {
		functions[FILENAME]++
		if ($0 !~ / 0 bytes spill stores, 0 bytes spill loads/) {
			sub(/^ */, "")
			print FILENAME ": " name ": " $0
			failed = 1
		}
		total++
	}
	END {
		for (i = 1; i <= n_files; i++)
			if (!functions[files[i]]) {
				print files[i] ": no function is reported"
				failed = 1
			}
		print total + 0 " functions of " n_files + 0 " files"
		exit failed || n_files == 0
	}' "$@"
}

# A reader that finds nothing in a report that spills would let everything pass.
planted=$(mktemp)
trap 'rm -f "$planted"' EXIT
for numbers in '4 bytes spill stores, 0 bytes spill loads' '0 bytes spill stores, 8 bytes spill loads' \
	'10 bytes spill stores, 0 bytes spill loads' ''; do
	printf 'ptxas info    : Function properties for kernel\n    0 bytes stack frame, %s\n' "$numbers" >"$planted"
	if spills "$planted" >/dev/null; then
		echo "not noticed: '$numbers'"
		exit 1
	fi
done
printf 'ptxas info    : Function properties for kernel\n    96 bytes stack frame, %s\n' \
	'0 bytes spill stores, 0 bytes spill loads' >"$planted"
spills "$planted" || exit 1

if [ $# -eq 0 ]; then
	echo "no nvcc: nothing was compiled"
	exit 77
fi
for report; do
	if [ ! -s "$report" ]; then
		echo "$report is empty"
		exit 1
	fi
done
spills "$@"
