/* The text side as the engine itself needs it. */
#ifndef ASSAY_ENGINE_TEXT_FACE_H
#define ASSAY_ENGINE_TEXT_FACE_H

#include "engine/engine.h"

struct tokenizer;

/* NULL for NULL. */
const struct tokenizer *engine_text_tokenizer(const struct engine_text *text);

#endif
