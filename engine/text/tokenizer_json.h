/* tokenizer.json and tokenizer_config.json, read into a tokenizer_spec. */
#ifndef ASSAY_ENGINE_TEXT_TOKENIZER_JSON_H
#define ASSAY_ENGINE_TEXT_TOKENIZER_JSON_H

#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/text/tokenizer_spec.h"

/* root is the whole file. *spec starts zeroed and borrows from the document. */
int tokenizer_json_read(const struct json *root, struct tokenizer_spec *spec, struct error *e);

/* What transformers' AutoTokenizer takes from the configuration beside a tokenizer.json: more added tokens, BOS
 * and EOS. Its add_bos_token and add_eos_token do nothing there: the file's own post-processor decides. */
int tokenizer_config_read(const struct json *root, struct tokenizer_spec *spec, struct error *e);

#endif
