/* A conversation as a template sees it. */
#ifndef ASSAY_ENGINE_TEXT_CHAT_MESSAGES_H
#define ASSAY_ENGINE_TEXT_CHAT_MESSAGES_H

#include "engine/text/jinja_value.h"

/* As transformers hands messages over: members that are null are left out; what was thought is found under
 * "reasoning_content" and "thinking", whichever of the names for it was used. An empty list, or an item that is no
 * object, is an error. */
int chat_messages_read(struct jinja_run *r, const struct json *messages, struct jinja_value *out);

#endif
