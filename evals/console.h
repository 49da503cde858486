/* What a person sees: progress and messages on stderr, tables on stdout. A line that moves is shown on a terminal only;
 * elsewhere (a file, CI, TERM=dumb) progress is a plain line now and then, without a carriage return or an escape. */
#ifndef ASSAY_EVALS_CONSOLE_H
#define ASSAY_EVALS_CONSOLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/buf.h"
#include "engine/base/str.h"
#include "evals/cli.h"

/* Seconds between plain lines of progress. */
enum { CONSOLE_LINE_SECONDS = 5 };

struct console {
	FILE *messages; /* stderr */
	bool quiet, verbose;
	bool bar;                          /* progress is a line that moves */
	bool color_output, color_messages; /* of stdout, of stderr */
	int64_t (*now)(void);              /* monotonic nanoseconds */

	int64_t loading_begun; /* when the first layer of a model was loaded */
	int64_t last_shown;    /* when progress was last written; 0: never */
	int bar_width;         /* columns of the bar that stand on the screen now */
};

/* Looks at the options, the streams and NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, TERM, CI. */
void console_init(struct console *c, const struct options *o, FILE *output, FILE *messages);

/* Whether colours go to a stream: --color first, then NO_COLOR (not empty), then FORCE_COLOR or CLICOLOR_FORCE (not
 * empty, not 0), then whether it is a terminal that is not dumb. */
bool console_wants_color(enum color_mode mode, bool is_terminal);

/* "assay: MESSAGE" on stderr; a bar makes room. A note is left out when quiet, a detail unless verbose. */
void console_error(struct console *c, const char *message);
void console_note(struct console *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void console_detail(struct console *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As engine_config.progress, with the console as context: a note now and then when loading takes longer than two
 * seconds. */
void console_loading(void *console, int layer, int n_layers);

/* Progress of one task. */
struct progress {
	struct console *console;
	const char *label; /* "gsm8k bf16/fp8" */
	int64_t total;
	int64_t done_before; /* done in an earlier run */
	int64_t begun;
};

void progress_begin(struct progress *p, struct console *c, const char *label, int64_t total, int64_t done_before);
/* May be called as often as one likes. done counts those of an earlier run. */
void progress_update(struct progress *p, int64_t done);
/* Takes the bar away. */
void progress_end(struct progress *p);

/* ---- Text ---- */

/* Columns of a terminal that s takes. */
int text_width(struct str s);

/* Appends s so that it is safe and one line on a terminal: control characters and those that reorder text are written
 * as \n, \x1b or \u202e, invalid UTF-8 as U+FFFD. */
void text_append_printable(struct buf *out, struct str s);

/* Appends at most columns of s (itself printable); what was cut is marked by an ellipsis. */
void text_append_clipped(struct buf *out, struct str s, int columns);

/* "1.8 MiB", "512 B". */
void text_append_bytes(struct buf *out, int64_t bytes);

/* "0.6510 ± 0.0131", "0.6510 ± n/a" for a NaN as error; more digits where these would show nothing: "1.20e-05 ±
 * 2.31e-06", "0.999897 ± 0.000017". */
void text_append_estimate(struct buf *out, double value, double stderr_value);

/* ---- Tables ---- */

/* Columns are as wide as their widest cell, and two blanks apart. */
struct table {
	int columns;
	const char *align; /* one letter a column: 'l' or 'r' */
	struct buf text;   /* all cells, one after the other */
	size_t *ends;      /* where each cell ends in text; owned */
	size_t cells, capacity;
	bool failed;
};

void table_init(struct table *t, const char *align);
/* Each adds the next cell, row by row; the first row is the header. Text becomes printable. */
void table_add(struct table *t, struct str text);
void table_printf(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends the lines to out, the header in bold when colours are on. PRECOND: whole rows. */
int table_write(const struct table *t, bool color, struct buf *out, struct error *e);
void table_free(struct table *t);

#endif
