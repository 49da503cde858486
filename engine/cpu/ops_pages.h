/* Pages of the KV cache: checking the tables that point to them, and copying them between pools. */
#ifndef ASSAY_ENGINE_CPU_OPS_PAGES_H
#define ASSAY_ENGINE_CPU_OPS_PAGES_H

#include "engine/cpu/ref.h"

/* A page counts as bad when it lies outside [1, n_pages), which is known before its tag is read, or when its tag
 * differs. Use of more logical pages than the table holds (n_used > table_stride) is bad at table_stride, a negative
 * n_used at 0. */
void verify_pages_cpu(const struct verify_pages_args *a);

/* Slots [0, n_tokens) of every kv head of each page. Where format and scale are the same on both sides the bytes are
 * copied; else each value is read as attention would and stored as a new token would be. Pages are copied in order. v
 * may be NULL on both sides (latent layers: n_kv_heads 1, head_dim C + Dr). PRECOND: every page is in [0, n_pages) of
 * its pool. */
void copy_pages_cpu(const struct copy_pages_args *a);

#endif
