#include "reports/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/decimal.h"
#include "reports/report_faults.h"
#include "reports/report_overhead.h"
#include "reports/report_tables.h"

enum { PLOT_SECONDS = 20, PLOT_BYTES_MAX = 8 << 20, PLOT_LINES_MAX = 12, PLOT_POINTS_MAX = 512 };

void plot_free(struct plot *p)
{
	buf_free(&p->script);
	buf_free(&p->alternative);
}

void plot_label(struct buf *out, const char *text)
{
	enum { LABEL_MAX = 40 };
	for (int i = 0; text[i] && i < LABEL_MAX; i++) {
		char c = text[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			strchr(" ./>_-+:%()", c);
		buf_append_char(out, plain ? c : '?');
	}
}

/* ---- Scripts ---- */

static void begin_script(struct buf *s, int width, int height)
{
	/* podo is the colour-blind safe set of Okabe and Ito. */
	buf_printf(s,
		"set encoding utf8\nset terminal svg noenhanced size %d,%d font 'DejaVu Sans,14' background rgb "
		"'white'\n"
		"set colorsequence podo\nset datafile missing '?'\nset border 3\nset tics nomirror out\n"
		"set grid xtics ytics linecolor rgb '#dddddd' linetype 1\nset key above center horizontal\n",
		width, height);
}

static void append_number(struct buf *s, double value)
{
	if (isfinite(value))
		decimal_write_double(value, s);
	else
		buf_append_char(s, '?');
}

static int end_plot(struct plot *p, struct error *e)
{
	TRY(buf_check(&p->script, e));
	return buf_check(&p->alternative, e);
}

static void forest_row(struct plot *p, const struct endpoint *x, int y)
{
	buf_printf(&p->script, "%d ", y);
	append_number(&p->script, 100 * x->drop);
	buf_append_char(&p->script, ' ');
	append_number(&p->script, 100 * x->interval.low);
	buf_append_char(&p->script, ' ');
	append_number(&p->script, 100 * x->interval.high);
	buf_append_char(&p->script, ' ');
	append_number(&p->script, 100 * x->margin);
	buf_append_text(&p->script, " \"");
	plot_label(&p->script, x->name);
	buf_append_text(&p->script, "\"\n");
	buf_printf(&p->alternative, "; %s: %.2f (%.2f to %.2f), margin %.2f", x->name, 100 * x->drop,
		100 * x->interval.low, 100 * x->interval.high, 100 * x->margin);
}

int plot_forest(const struct verdict *v, struct plot *out, struct error *e)
{
	enum { ROWS_MAX = 80 };
	int rows = 0;
	*out = (struct plot){0};
	buf_append_text(&out->alternative, "Drop in points with its 95% interval and the margin");
	buf_append_text(&out->script, "$drops << EOD\n");
	for (size_t i = 0; i < v->n_endpoints; i++)
		if (strcmp(v->endpoints[i].unit, "points") == 0 && isfinite(v->endpoints[i].drop))
			forest_row(out, &v->endpoints[i], rows++);
	for (size_t i = 0; i < v->n_suites && rows < ROWS_MAX; i++)
		if (v->suites[i].comparison.has_table && isfinite(v->suites[i].endpoint.drop))
			forest_row(out, &v->suites[i].endpoint, rows++);
	buf_append_text(&out->script, "EOD\n");
	if (rows == 0) {
		plot_free(out);
		return 0;
	}
	begin_script(&out->script, 860, 150 + 34 * rows);
	buf_printf(&out->script,
		"set yrange [%d.6:-0.6]\nset xlabel 'drop in points (right of 0: the candidate is worse)'\n"
		"set arrow from 0, graph 0 to 0, graph 1 nohead linecolor rgb '#444444' linewidth 1.5\n"
		"plot $drops using 2:1:3:4:ytic(6) with xerrorbars linewidth 2 pointtype 7 pointsize 1 linecolor rgb "
		"'#0072b2' "
		"title 'drop, 95%% interval', "
		"$drops using 5:1:(0):(0.35) with vectors nohead linewidth 3 linecolor rgb '#d55e00' title 'margin', "
		"$drops using 5:1:(0):(-0.35) with vectors nohead linewidth 3 linecolor rgb '#d55e00' notitle\n",
		rows - 1);
	return end_plot(out, e);
}

/* ---- Histogram ---- */

enum { BINS = 41 };

static double moved(const struct pair *p)
{
	return p->state == PAIR_COMPLETE ? p->candidate_logprob - p->baseline_logprob : (double)NAN;
}

int plot_margins(const struct verdict *v, struct plot *out, struct error *e)
{
	long bins[BINS] = {0}, n = 0;
	double most = 0;
	*out = (struct plot){0};
	for (size_t i = 0; i < v->pairing->n_pairs; i++)
		if (isfinite(moved(&v->pairing->pairs[i]))) {
			most = fmax(most, fabs(moved(&v->pairing->pairs[i])));
			n++;
		}
	if (n < 2 || !(most > 0))
		return 0;
	double width = 2 * most / BINS;
	for (size_t i = 0; i < v->pairing->n_pairs; i++)
		if (isfinite(moved(&v->pairing->pairs[i])))
			bins[(int)fmin(BINS - 1, floor((moved(&v->pairing->pairs[i]) + most) / width))]++;
	buf_printf(&out->alternative,
		"Histogram of %ld gold choices by how far their log-probability moved from baseline to candidate, at "
		"most %.3g nat",
		n, most);
	buf_append_text(&out->script, "$bins << EOD\n");
	for (int i = 0; i < BINS; i++) {
		append_number(&out->script, (i + 0.5) * width - most);
		buf_printf(&out->script, " %ld\n", bins[i]);
	}
	buf_append_text(&out->script, "EOD\n");
	begin_script(&out->script, 860, 320);
	buf_append_text(&out->script,
		"unset key\nset yrange [0:*]\nset xlabel 'candidate minus baseline, nat (left of 0: the gold choice is "
		"less "
		"likely)'\nset ylabel 'items'\nset style fill solid 0.6 border\nset boxwidth ");
	append_number(&out->script, 0.9 * width);
	buf_append_text(&out->script,
		"\nset arrow from 0, graph 0 to 0, graph 1 nohead linecolor rgb '#444444' linewidth 1.5\n"
		"plot $bins using 1:2 with boxes linecolor rgb '#0072b2'\n");
	return end_plot(out, e);
}

/* ---- Throughput ---- */

/* A line of the plot: one variant of one run, one length of input and output. */
struct speed_line {
	const struct report_run *run;
	const struct report_measurement *first;
};

static bool same_line(const struct report_measurement *a, const struct report_measurement *b)
{
	return a->variant == b->variant && strcmp(a->phase, b->phase) == 0 && strcmp(a->arm, b->arm) == 0 &&
		a->input_tokens == b->input_tokens && a->output_tokens == b->output_tokens;
}

static int speed_lines(const struct report_data *data, const char *phase, struct speed_line *lines)
{
	int n = 0;
	for (size_t r = 0; r < data->n_runs; r++) {
		const struct report_run *run = &data->runs[r];
		for (size_t i = 0; i < run->n_measurements && n < PLOT_LINES_MAX; i++) {
			const struct report_measurement *m = &run->measurements[i];
			bool known = strcmp(m->phase, phase) != 0 || m->block != 0 || !isfinite(m->tokens_per_s);
			for (int j = 0; j < n && !known; j++)
				known = lines[j].run == run && same_line(lines[j].first, m);
			if (!known)
				lines[n++] = (struct speed_line){run, m};
		}
	}
	return n;
}

static void speed_points(const struct speed_line *line, struct buf *out)
{
	for (size_t i = 0; i < line->run->n_measurements; i++) {
		const struct report_measurement *m = &line->run->measurements[i];
		if (!same_line(m, line->first) || m->block != 0)
			continue;
		buf_printf(out, "%lld ", (long long)m->concurrency);
		append_number(out, m->tokens_per_s);
		buf_append_char(out, '\n');
	}
}

static void speed_title(const struct speed_line *line, bool many_runs, struct buf *out)
{
	plot_label(out, line->run->variants[line->first->variant].name);
	if (strcmp(line->first->arm, "none") != 0) {
		buf_append_text(out, " guard ");
		plot_label(out, line->first->arm);
	}
	buf_printf(out, " %lld+%lld", (long long)line->first->input_tokens, (long long)line->first->output_tokens);
	if (many_runs)
		buf_printf(out, " (run %lld)", (long long)line->run->run.run_id);
}

/* Marks the requests that the cache holds at once, where that lies near what was measured. Returns the axis's end. */
static int64_t full_mark(const struct speed_line *line, int number, struct buf *out)
{
	int64_t tokens = line->first->input_tokens + line->first->output_tokens;
	int64_t full = tokens > 0 ? line->run->variants[line->first->variant].kv_tokens / tokens : 0;
	int64_t most = 0;
	for (size_t i = 0; i < line->run->n_measurements; i++)
		if (same_line(&line->run->measurements[i], line->first) &&
			line->run->measurements[i].concurrency > most)
			most = line->run->measurements[i].concurrency;
	if (full <= 0 || full > 2 * most)
		return most;
	buf_printf(out,
		"set arrow from %lld, graph 0 to %lld, graph 1 nohead dashtype 2 linewidth 1.5 linecolor %d\n"
		"set label 'cache full' at %lld, graph 0.05 rotate by 90 offset -1.4,%d textcolor linetype %d\n",
		(long long)full, (long long)full, number, (long long)full, 7 * ((number - 1) % 2), number);
	return full > most ? full : most;
}

int plot_throughput(const struct report_data *data, const char *phase, struct plot *out, struct error *e)
{
	struct speed_line lines[PLOT_LINES_MAX];
	int n = speed_lines(data, phase, lines);
	*out = (struct plot){0};
	if (n == 0)
		return 0;
	buf_printf(&out->alternative, "%s tokens per second over concurrency, a line per variant: ", phase);
	for (int i = 0; i < n; i++) {
		buf_printf(&out->script, "$line%d << EOD\n", i);
		speed_points(&lines[i], &out->script);
		buf_append_text(&out->script, "EOD\n");
		buf_append_text(&out->alternative, i ? ", " : "");
		speed_title(&lines[i], data->n_runs > 1, &out->alternative);
	}
	begin_script(&out->script, 860, 460);
	buf_printf(&out->script,
		"set logscale x 2\nset yrange [0:*]\nset xlabel 'requests at a time'\nset ylabel '%s tokens per "
		"second'\n",
		phase);
	int64_t most = 1;
	for (int i = 0; i < n; i++) {
		int64_t end = full_mark(&lines[i], i + 1, &out->script);
		most = end > most ? end : most;
	}
	buf_printf(&out->script, "set xrange [1:%lld]\n", (long long)(most + (most + 9) / 10));
	for (int i = 0; i < n; i++) {
		buf_printf(&out->script,
			"%s$line%d using 1:2 with linespoints linewidth 2 pointtype %d dashtype %d title '",
			i ? ", " : "plot ", i, i + 4, i % 4 + 1);
		speed_title(&lines[i], data->n_runs > 1, &out->script);
		buf_append_char(&out->script, '\'');
	}
	buf_append_char(&out->script, '\n');
	return end_plot(out, e);
}

/* ---- Overhead ---- */

static void overhead_label(const struct report_overhead *x, struct buf *out)
{
	plot_label(out, x->run->variants[x->point->variant].name);
	buf_append_char(out, ' ');
	plot_label(out, x->point->arm);
	buf_append_char(out, ' ');
	plot_label(out, x->point->phase);
	buf_printf(out, " x%lld", (long long)x->point->concurrency);
}

int plot_overhead(const struct report_data *data, struct plot *out, struct error *e)
{
	enum { ROWS_MAX = 40 };
	struct report_overhead rows[ROWS_MAX];
	*out = (struct plot){0};
	int n = report_overheads(data, rows, ROWS_MAX, e);
	TRY(n);
	if (n == 0)
		return 0;
	buf_append_text(&out->alternative,
		"Overhead in percent with its 95% interval, against a budget of 1% and beside none against none (A/A)");
	buf_append_text(&out->script, "$overhead << EOD\n");
	for (int i = 0; i < n; i++) {
		const struct overhead_change *cost = &rows[i].throughput;
		const double values[] = {100 * cost->value, 100 * cost->low, 100 * cost->high, 100 * rows[i].null_low,
			100 * rows[i].null_high};
		buf_printf(&out->script, "%d", i);
		for (int j = 0; j < 5; j++) {
			buf_append_char(&out->script, ' ');
			append_number(&out->script, values[j]);
		}
		buf_append_text(&out->script, " \"");
		overhead_label(&rows[i], &out->script);
		buf_append_text(&out->script, "\"\n");
		buf_append_text(&out->alternative, "; ");
		overhead_label(&rows[i], &out->alternative);
		buf_printf(&out->alternative, ": %.2f (%.2f to %.2f)", values[0], values[1], values[2]);
		if (!isnan(rows[i].null_low) && !rows[i].is_null)
			buf_printf(&out->alternative, ", A/A %.2f to %.2f", values[3], values[4]);
	}
	buf_append_text(&out->script, "EOD\n");
	begin_script(&out->script, 860, 150 + 34 * n);
	buf_printf(&out->script,
		"set yrange [%d.6:-0.6]\nset xlabel 'percent of the throughput'\n"
		"set arrow from 0, graph 0 to 0, graph 1 nohead linecolor rgb '#444444' linewidth 1.5\n"
		"set arrow from 1, graph 0 to 1, graph 1 nohead linecolor rgb '#d55e00' linewidth 3\n"
		"plot $overhead using (($5+$6)/2):1:5:6:($1-0.35):($1+0.35) with boxxyerror fill solid noborder "
		"linecolor "
		"rgb '#cccccc' title 'A/A: none against none', "
		"$overhead using 2:1:3:4:ytic(7) with xerrorbars linewidth 2 pointtype 7 pointsize 1 "
		"linecolor rgb '#0072b2' title 'overhead, 95%% interval', "
		"NaN with lines linewidth 3 linecolor rgb '#d55e00' title 'budget 1%%'\n",
		n - 1);
	return end_plot(out, e);
}

/* ---- Faults ---- */

enum { FAULT_ROWS_MAX = 80, FAULT_CHECKS_MAX = 40 };

/* The place of a name among those seen; n grows with a new one. -1: too many. */
static int name_place(const char **names, int *n, int most, const char *name)
{
	int k = 0;
	while (k < *n && strcmp(names[k], name) != 0)
		k++;
	if (k == *n && *n == most)
		return -1;
	if (k == *n)
		names[(*n)++] = name;
	return k;
}

static void append_tics(struct buf *script, char axis, const char *const *names, int n)
{
	buf_printf(script, "set %ctics (", axis);
	for (int i = 0; i < n; i++) {
		buf_printf(script, "%s'", i ? ", " : "");
		plot_label(script, names[i]);
		buf_printf(script, "' %d", i);
	}
	buf_printf(script, ")%s\n", axis == 'x' ? " rotate by -40" : "");
}

int plot_faults(const struct report_run *run, struct plot *out, struct error *e)
{
	const char *sites[FAULT_ROWS_MAX], *checks[FAULT_CHECKS_MAX];
	int n_sites = 0, n_checks = 0;
	*out = (struct plot){0};
	if (run->n_checks == 0)
		return 0;
	buf_append_text(
		&out->alternative, "Share of trials in which each check fired, by fault; the numbers are in the table");
	buf_append_text(&out->script, "$faults << EOD\n");
	for (size_t i = 0; i < run->n_checks; i++) {
		const struct report_fault *x = &run->checks[i];
		int row = name_place(sites, &n_sites, FAULT_ROWS_MAX, x->site);
		int column = name_place(checks, &n_checks, FAULT_CHECKS_MAX, x->key);
		int64_t n = report_fault_trials(run, NULL, x->site);
		if (row < 0 || column < 0 || n == 0)
			continue;
		buf_printf(&out->script, "%d %d ", column, row);
		append_number(&out->script, 100 * (double)x->n / (double)n);
		buf_append_char(&out->script, '\n');
	}
	buf_append_text(&out->script, "EOD\n");
	begin_script(&out->script, 860, 190 + 20 * n_sites);
	append_tics(&out->script, 'x', checks, n_checks);
	append_tics(&out->script, 'y', sites, n_sites);
	buf_printf(&out->script,
		"set xrange [-0.6:%d.6]\nset yrange [%d.6:-0.6]\nset cbrange [0:100]\nset cblabel '%% of trials'\n"
		"set palette defined (0 '#f2f2f2', 100 '#0072b2')\nset style fill solid\nunset grid\nunset key\n"
		"plot $faults using 1:2:(0.46):(0.46):3 with boxxyerror palette, "
		"$faults using 1:2:(sprintf('%%.0f', $3)):($3 > 50 ? 0xffffff : 0x222222) with labels "
		"font ',10' textcolor rgb variable\n",
		n_checks - 1, n_sites - 1);
	return end_plot(out, e);
}

/* ---- Latency ---- */

static void latency_points(const struct report_variant *v, struct buf *out)
{
	size_t step = v->n_seconds > PLOT_POINTS_MAX ? v->n_seconds / PLOT_POINTS_MAX : 1;
	for (size_t i = 0; i < v->n_seconds; i++) {
		if (i % step != 0 && i + 1 != v->n_seconds)
			continue;
		append_number(out, 1e3 * v->seconds[i]);
		buf_append_char(out, ' ');
		append_number(out, 100 * (double)(i + 1) / (double)v->n_seconds);
		buf_append_char(out, '\n');
	}
}

int plot_latency(const struct report_run *run, struct plot *out, struct error *e)
{
	size_t drawn[PLOT_LINES_MAX];
	int n = 0;
	*out = (struct plot){0};
	for (size_t i = 0; i < run->n_variants && n < PLOT_LINES_MAX; i++)
		if (run->variants[i].n_seconds > 1 && run->variants[i].seconds[run->variants[i].n_seconds - 1] > 0)
			drawn[n++] = i;
	if (n == 0)
		return 0;
	buf_printf(&out->alternative,
		"Share of the answers of run %lld that took at most so many milliseconds, a line per variant",
		(long long)run->run.run_id);
	for (int i = 0; i < n; i++) {
		buf_printf(&out->script, "$line%d << EOD\n", i);
		latency_points(&run->variants[drawn[i]], &out->script);
		buf_append_text(&out->script, "EOD\n");
	}
	begin_script(&out->script, 860, 420);
	buf_append_text(&out->script,
		"set logscale x\nset yrange [0:100]\nset xlabel 'milliseconds for an answer'\nset ylabel '% of "
		"answers'\n");
	for (int i = 0; i < n; i++) {
		buf_printf(&out->script, "%s$line%d using 1:2 with steps linewidth 2 dashtype %d title '",
			i ? ", " : "plot ", i, i % 4 + 1);
		plot_label(&out->script, run->variants[drawn[i]].name);
		buf_append_char(&out->script, '\'');
	}
	buf_append_char(&out->script, '\n');
	return end_plot(out, e);
}

/* ---- gnuplot ---- */

struct process {
	pid_t pid;
	int input, output; /* what it reads from, writes to; -1: closed */
};

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Without a shell, without the user's settings, and with nothing of the environment but PATH. */
static int spawn_gnuplot(const int input[2], const int output[2], pid_t *pid)
{
	static char name[] = "gnuplot", ignore_settings[] = "-d", from_input[] = "-";
	char *arguments[] = {name, ignore_settings, from_input, NULL};
	static char locale[] = "LC_ALL=C", home[] = "HOME=/nonexistent", plain_path[] = "PATH=/usr/bin:/bin";
	char *environment[] = {locale, home, plain_path, NULL};
	posix_spawn_file_actions_t actions;
	int number = posix_spawn_file_actions_init(&actions);
	if (number == 0)
		number = posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
	if (number == 0)
		number = posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
	if (number == 0)
		number = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (number == 0)
		number = posix_spawnp(pid, name, &actions, NULL, arguments, environment);
	posix_spawn_file_actions_destroy(&actions);
	return number;
}

/* 1: started; 0: gnuplot is not there. */
static int process_start(struct process *p, struct error *e)
{
	int input[2], output[2];
	if (pipe2(input, O_CLOEXEC) != 0)
		return error_set(e, ERR_IO, "cannot make a pipe to gnuplot: %s", strerror(errno));
	if (pipe2(output, O_CLOEXEC) != 0) {
		int number = errno;
		close(input[0]);
		close(input[1]);
		return error_set(e, ERR_IO, "cannot make a pipe from gnuplot: %s", strerror(number));
	}
	int number = spawn_gnuplot(input, output, &p->pid);
	close(input[0]);
	close(output[1]);
	p->input = input[1];
	p->output = output[0];
	if (number == 0) {
		fcntl(p->input, F_SETFL, O_NONBLOCK);
		return 1;
	}
	close_end(&p->input);
	close_end(&p->output);
	return number == ENOENT || number == EACCES
		? 0
		: error_set(e, ERR_IO, "cannot start gnuplot: %s", strerror(number));
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Feeds the script and takes the drawing until its end; false when it takes too long or writes too much. */
static bool converse(struct process *p, struct str script, struct buf *out)
{
	double end = now() + PLOT_SECONDS;
	size_t written = 0;
	while (p->output >= 0) {
		char block[16384];
		struct pollfd fds[2] = {{p->output, POLLIN, 0}, {p->input, POLLOUT, 0}};
		if (poll(fds, 2, 200) < 0 && errno != EINTR)
			return false;
		if (p->input >= 0 && fds[1].revents) {
			ssize_t n = write(p->input, script.data + written, script.length - written);
			written += n > 0 ? (size_t)n : 0;
			if ((n < 0 && errno != EAGAIN) || written == script.length)
				close_end(&p->input);
		}
		if (fds[0].revents) {
			ssize_t n = read(p->output, block, sizeof(block));
			if (n > 0)
				buf_append(out, block, (size_t)n);
			else if (n == 0 || errno != EINTR)
				close_end(&p->output);
		}
		if (now() > end || out->length > PLOT_BYTES_MAX)
			return false;
	}
	return true;
}

static int process_end(struct process *p, bool kill_it)
{
	int status = 0;
	close_end(&p->input);
	close_end(&p->output);
	if (kill_it)
		kill(p->pid, SIGKILL);
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int plot_draw(const struct plot *p, struct buf *out, struct error *e)
{
	struct process process;
	if (p->script.length == 0)
		return 0;
	int started = process_start(&process, e);
	if (started <= 0)
		return started;
	struct buf drawing = {0};
	bool done = converse(&process, buf_str(&p->script), &drawing);
	if (process_end(&process, !done) == 0 && done) {
		size_t begin = str_find(buf_str(&drawing), str_of("<svg"), 0);
		size_t end = str_find(buf_str(&drawing), str_of("</svg>"), 0);
		if (begin != SIZE_MAX && end != SIZE_MAX && end > begin)
			buf_append(out, drawing.data + begin, end + 6 - begin);
	}
	buf_free(&drawing);
	return buf_check(out, e);
}
