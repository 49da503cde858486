#include "evals/console.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static int64_t monotonic_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- What the surroundings want ---- */

static bool is_set(const char *name)
{
	const char *value = getenv(name);
	return value && *value;
}

static bool is_switched_on(const char *name)
{
	return is_set(name) && strcmp(getenv(name), "0") != 0 && strcmp(getenv(name), "false") != 0;
}

static bool terminal_is_dumb(void)
{
	const char *term = getenv("TERM");
	return !term || !*term || strcmp(term, "dumb") == 0;
}

bool console_wants_color(enum color_mode mode, bool is_terminal)
{
	if (mode != COLOR_AUTO)
		return mode == COLOR_ALWAYS;
	if (is_set("NO_COLOR"))
		return false;
	if (is_switched_on("FORCE_COLOR") || is_switched_on("CLICOLOR_FORCE"))
		return true;
	return is_terminal && !terminal_is_dumb();
}

void console_init(struct console *c, const struct options *o, FILE *output, FILE *messages)
{
	bool terminal = isatty(fileno(messages));
	*c = (struct console){
		.messages = messages,
		.quiet = o->quiet,
		.verbose = o->verbose,
		.bar = terminal && !is_switched_on("CI") && !terminal_is_dumb(),
		.color_output = console_wants_color(o->color, isatty(fileno(output))),
		.color_messages = console_wants_color(o->color, terminal),
		.now = monotonic_ns,
	};
}

/* ---- Messages ---- */

/* Blanks where the bar stood: an erase sequence would be an escape. */
static void hide_bar(struct console *c)
{
	if (c->bar_width)
		fprintf(c->messages, "\r%*s\r", c->bar_width, "");
	c->bar_width = 0;
}

static void write_message(struct console *c, const char *style, const char *message)
{
	hide_bar(c);
	bool color = c->color_messages && *style;
	fprintf(c->messages, "%sassay:%s %s\n", color ? style : "", color ? "\033[0m" : "", message);
	fflush(c->messages);
}

void console_error(struct console *c, const char *message)
{
	write_message(c, "\033[1;31m", message);
}

static void write_formatted(struct console *c, const char *format, va_list arguments)
{
	char message[1024] = "";
	vsnprintf(message, sizeof(message), format, arguments);
	write_message(c, "", message);
}

void console_note(struct console *c, const char *format, ...)
{
	if (c->quiet)
		return;
	va_list arguments;
	va_start(arguments, format);
	write_formatted(c, format, arguments);
	va_end(arguments);
}

void console_detail(struct console *c, const char *format, ...)
{
	if (!c->verbose || c->quiet)
		return;
	va_list arguments;
	va_start(arguments, format);
	write_formatted(c, format, arguments);
	va_end(arguments);
}

/* ---- Progress ---- */

enum { BAR_INTERVAL_MS = 100, BAR_CELLS = 24, DEFAULT_COLUMNS = 80 };

static int terminal_columns(FILE *stream)
{
	struct winsize size;
	if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return DEFAULT_COLUMNS;
	return size.ws_col;
}

static void append_duration(struct buf *out, double seconds)
{
	int64_t s = (int64_t)seconds;
	if (s >= 3600)
		buf_printf(out, "%lld:%02lld:%02lld", (long long)(s / 3600), (long long)(s / 60 % 60),
			(long long)(s % 60));
	else
		buf_printf(out, "%lld:%02lld", (long long)(s / 60), (long long)(s % 60));
}

/* "123/1319, 4.2/s, 4:44 left" */
static void append_counts(struct buf *out, const struct progress *p, int64_t done, int64_t now)
{
	buf_printf(out, "%lld/%lld", (long long)done, (long long)p->total);
	double seconds = (double)(now - p->begun) * 1e-9;
	int64_t fresh = done - p->done_before;
	if (fresh <= 0 || seconds <= 0)
		return;
	double rate = (double)fresh / seconds;
	buf_printf(out, ", %.1f/s, ", rate);
	append_duration(out, (double)(p->total - done) / rate);
	buf_append_text(out, " left");
}

static void show_bar(struct progress *p, int64_t done, int64_t now)
{
	struct console *c = p->console;
	struct buf whole = {0};
	struct buf line = {0};
	int64_t filled = p->total > 0 ? done * BAR_CELLS / p->total : BAR_CELLS;
	text_append_printable(&whole, str_of(p->label));
	buf_append_text(&whole, " [");
	for (int i = 0; i < BAR_CELLS; i++)
		buf_append_char(&whole, i < filled ? '#' : '-');
	buf_append_text(&whole, "] ");
	append_counts(&whole, p, done, now);
	/* A line that fills the last column would wrap. */
	text_append_clipped(&line, buf_str(&whole), terminal_columns(c->messages) - 1);
	int width = text_width(buf_str(&line));
	int rest = c->bar_width > width ? c->bar_width - width : 0;
	fprintf(c->messages, "\r%s%*s", buf_text(&line), rest, "");
	fflush(c->messages);
	c->bar_width = width;
	buf_free(&whole);
	buf_free(&line);
}

static void show_line(struct progress *p, int64_t done, int64_t now)
{
	struct buf line = {0};
	text_append_printable(&line, str_of(p->label));
	buf_append_text(&line, ": ");
	append_counts(&line, p, done, now);
	fprintf(p->console->messages, "%s\n", buf_text(&line));
	fflush(p->console->messages);
	buf_free(&line);
}

void console_loading(void *console, int layer, int n_layers)
{
	static const int64_t second = 1000000000;
	struct console *c = console;
	int64_t now = c->now();

	if (layer == 1)
		c->loading_begun = now;
	if (now - c->loading_begun < 2 * second || now - c->last_shown < CONSOLE_LINE_SECONDS * second)
		return;
	console_note(c, "loading: layer %d of %d", layer, n_layers);
	c->last_shown = now;
}

void progress_begin(struct progress *p, struct console *c, const char *label, int64_t total, int64_t done_before)
{
	*p = (struct progress){c, label, total, done_before, c->now()};
	if (!c->last_shown)
		c->last_shown = p->begun; /* the first plain line comes an interval after the start */
	if (c->bar && !c->quiet)
		show_bar(p, done_before, p->begun);
}

void progress_update(struct progress *p, int64_t done)
{
	struct console *c = p->console;
	if (c->quiet)
		return;
	int64_t now = c->now();
	int64_t interval = c->bar ? BAR_INTERVAL_MS * (int64_t)1000000 : CONSOLE_LINE_SECONDS * (int64_t)1000000000;
	if (now - c->last_shown < interval)
		return;
	c->last_shown = now;
	if (c->bar)
		show_bar(p, done, now);
	else
		show_line(p, done, now);
}

void progress_end(struct progress *p)
{
	hide_bar(p->console);
	fflush(p->console->messages);
}
