/* One safetensors file, mapped and bounds-checked. Tensors borrow from the mapping. */
#ifndef ASSAY_ENGINE_MODEL_SAFETENSORS_H
#define ASSAY_ENGINE_MODEL_SAFETENSORS_H

#include <stdint.h>

#include "engine/base/error.h"
#include "engine/base/file.h"
#include "engine/model/tensor.h"

struct safetensors;

/* Refuses: a header longer than the file or 100 MB, JSON that is not an object, a doubled key, __metadata__ that is not
 * text to text (null is accepted), unknown dtypes, shapes whose size overflows or disagrees with data_offsets, offsets
 * outside the file, holes, overlaps and bytes that no tensor covers. Messages name the file and the tensor. */
int safetensors_open(const char *path, struct safetensors **out, struct error *e);
void safetensors_close(struct safetensors *s);

/* The same on bytes in memory (fuzzing, tests); data must outlive the result. */
int safetensors_parse(const uint8_t *data, size_t size, const char *name, struct safetensors **out, struct error *e);

int safetensors_count(const struct safetensors *s);
const struct tensor *safetensors_at(const struct safetensors *s, int i);              /* in order of data offset */
const struct tensor *safetensors_find(const struct safetensors *s, const char *name); /* NULL: not there */

#endif
