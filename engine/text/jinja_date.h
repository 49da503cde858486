/* strftime in English, whatever the locale. */
#ifndef ASSAY_ENGINE_TEXT_JINJA_DATE_H
#define ASSAY_ENGINE_TEXT_JINJA_DATE_H

#include <time.h>

#include "engine/base/buf.h"
#include "engine/base/str.h"

/* Appends as Python's datetime.strftime does in the C locale for a time without a zone. An unknown letter stays as it
 * is. All members of *t are set, the weekday and the day of the year too. */
void jinja_strftime(const struct tm *t, struct str format, struct buf *out);

#endif
