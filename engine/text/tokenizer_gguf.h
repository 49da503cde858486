/* The tokenizer that a GGUF file carries in its keys. */
#ifndef ASSAY_ENGINE_TEXT_TOKENIZER_GGUF_H
#define ASSAY_ENGINE_TEXT_TOKENIZER_GGUF_H

#include "engine/model/gguf.h"
#include "engine/text/tokenizer.h"

/* 0: there is one, of a kind that is built. ERR_MISSING: there is none. ERR_INPUT names the model or the
 * pre-tokenizer that is not built. */
int tokenizer_gguf_check(const struct gguf *g, struct error *e);

/* Byte-level BPE. Control and user-defined tokens are found in the text; BOS, EOS and padding count as control
 * tokens. add_bos_token and add_eos_token say what is added to a text; BOS is by default where the pre-tokenizer's
 * models do so. The fingerprint is over the file's tokenizer keys. */
int tokenizer_open_gguf(const struct gguf *g, struct tokenizer **out, struct error *e);

#endif
