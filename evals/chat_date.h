/* The date that chat templates are told: a parameter of a run like any other, so that the same prompts can be made on
 * another day. */
#ifndef ASSAY_EVALS_CHAT_DATE_H
#define ASSAY_EVALS_CHAT_DATE_H

#include <time.h>

#include "engine/base/error.h"

enum { CHAT_DATE_SIZE = 20 };

/* "YYYY-MM-DD" or "YYYY-MM-DDTHH:MM:SS"; NULL: the local time now. ERR_USAGE for anything else. */
int chat_date_parse(const char *text, struct tm *out, struct error *e);

/* As it can be given again: "2025-02-01T12:30:00". */
void chat_date_print(const struct tm *t, char out[CHAT_DATE_SIZE]);

#endif
