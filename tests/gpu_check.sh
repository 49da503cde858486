#!/bin/sh
# Builds the CUDA kernels and their cases with nvcc, runs the cases on the GPU and measures the kernels.
#   tests/gpu_check.sh [--bandwidth GB/s] [--tensor TFLOP/s] [--fma TFLOP/s]      the device's peaks, for shares of them
# Needs nvcc (NVCC, PATH or /usr/local/cuda/bin) and a C compiler (CC), nothing else. Builds in BUILD_DIR (build-gpu).
# Exit code: 0, 1 where something fails, 77 where it could only be built, or not even that.
set -eu
cd "$(dirname "$0")/.."
out=${BUILD_DIR:-build-gpu}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! command -v "$nvcc" >/dev/null; then
	echo "no nvcc: nothing built"
	exit 77
fi
mkdir -p "$out"
rm -f "$out"/*.o "$out/gpu_check"

kernel_flags="-std=c++17 -O3 -arch=sm_90a --fmad=false -Werror all-warnings -Xcompiler -Wall,-Wextra"
host_flags="-std=c++17 -O2 -Xcompiler -Wall,-Wextra,-ffp-contract=off"
c_flags="-std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -ffp-contract=off -include engine/base/banned.h"

# Objects that are made side by side, each group as long as its slowest.
pids=
for file in cuda/attend.cu cuda/linear_bf16.cu cuda/rmsnorm.cu; do
	"$nvcc" $kernel_flags -I. -c "$file" -o "$out/$(basename "$file" .cu).o" &
	pids="$pids $!"
done
for file in tests/cuda_cases/*.cpp tests/cuda_on_gpu/*.cpp; do
	"$nvcc" $host_flags -I. -c "$file" -o "$out/$(basename "$file" .cpp).o"
done
for file in engine/base/buf engine/base/det_math engine/base/error engine/base/quant engine/base/utf8 \
	engine/cpu/pack engine/cpu/ref; do
	"${CC:-cc}" $c_flags -I. -c "$file.c" -o "$out/c_$(basename "$file").o"
done
for pid in $pids; do
	wait "$pid"
done
"$nvcc" -arch=sm_90a "$out"/*.o -o "$out/gpu_check"

status=0
timeout 420 "$out/gpu_check" "$@" || status=$?
if [ "$status" = 124 ]; then
	echo "stopped after 7 minutes"
fi
exit "$status"
