#!/bin/sh
# Runs nvcc and keeps what ptxas says of registers and spills. Usage: compile_kernel.sh REPORT NVCC ARGUMENT...
report=$1
shift
if ! "$@" 2>"$report"; then
	cat "$report" >&2
	rm -f "$report"
	exit 1
fi
