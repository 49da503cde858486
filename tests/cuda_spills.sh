#!/bin/sh
# No kernel spills registers to memory: reads what ptxas reported when the kernels were compiled. Skipped (77) where
# there was no nvcc. Usage: cuda_spills.sh REPORT...
set -u

# Prints each function that spills, with its file, and how many were looked at. Fails where one spills, where none is
# reported, and where a kernel is without its numbers.
spills() {
	awk '
	FNR == 1 { n_files++ }
	/Compiling entry function/ { unknown[FILENAME ": " $(NF - 2)] = 1 }
	/Function properties for/ { name = $NF }
	/bytes spill stores/ {
		n_functions++
		delete unknown[FILENAME ": \047" name "\047"]
		if ($0 !~ / 0 bytes spill stores, 0 bytes spill loads/) {
			sub(/^ */, "")
			print FILENAME ": " name ": " $0
			failed = 1
		}
	}
	END {
		for (kernel in unknown) {
			print kernel ": nothing is reported"
			failed = 1
		}
		print n_functions + 0 " functions of " n_files + 0 " files"
		exit failed || !n_functions
	}' "$@"
}

# A reader that finds nothing in a report that spills would let everything pass.
planted=$(mktemp)
trap 'rm -f "$planted"' EXIT
format="ptxas info    : Compiling entry function '%s' for 'sm_90a'
ptxas info    : Function properties for %s
    %s
"
for numbers in '4 bytes spill stores, 0 bytes spill loads' '0 bytes spill stores, 8 bytes spill loads' \
	'10 bytes spill stores, 0 bytes spill loads' 'numbers of another kind'; do
	printf "$format" kernel kernel "0 bytes stack frame, $numbers" >"$planted"
	if spills "$planted" >/dev/null; then
		echo "not noticed: '$numbers'"
		exit 1
	fi
done
printf "$format" kernel kernel '96 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' >"$planted"
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
