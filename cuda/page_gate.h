/* The check of a step's pages before its reads, whose answer comes with the step (struct verify_deferral of
 * engine/backend.h). It stands as a gate before the ops that read or write pages: they get copies of the tables, the first
 * positions and the slots, in which every sequence that was found bad is parked on page 0. An entry of a copy is the value
 * that was checked, and nothing that the host sends later in the step can undo the parking. */
#ifndef ASSAY_CUDA_PAGE_GATE_H
#define ASSAY_CUDA_PAGE_GATE_H

#include <stdint.h>

#include "engine/backend.h"

/* All arrays are device memory. */
struct page_gate_args {
	struct verify_pages_args check; /* deferral is not read */
	const int32_t *cu_seqlens, *first_position;
	const int64_t *slots;
	int page_size;
	/* what is let through */
	int32_t *block_tables_out;   /* [B, check.table_stride]: of each row what is checked or attended to */
	int32_t *first_position_out; /* [B] */
	int64_t *slots_out;          /* [T] */
};

#endif
