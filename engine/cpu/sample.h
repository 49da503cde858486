/* Drawing a token from a row of logits. */
#ifndef ASSAY_ENGINE_CPU_SAMPLE_H
#define ASSAY_ENGINE_CPU_SAMPLE_H

#include "engine/backend.h"

/* Greedy (temperature 0) takes the lowest index among the largest. Else candidates are cut to the top_k largest logits
 * (lowest index first among equals), then to the shortest prefix of them, in descending order, whose probability at
 * that temperature reaches top_p; the draw walks the candidates in ascending index with philox_uniform(seed, position).
 * order: scratch of vocab indices. */
int32_t sample_token(const float *logits, int vocab, const struct sampling *s, uint64_t position, int32_t *order);

/* The count largest logits, descending, lowest index first among equals. count <= vocab. */
void top_tokens(const float *logits, int vocab, int count, int32_t *ids);

#endif
