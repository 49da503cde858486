/* A worker: a child process that surveys workloads and runs trials, and may die of them. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "integrity/campaign_internal.h"

enum { CACHED = 8, HANG_SECONDS = 1, HANG_TIMES = 100 };

struct cached {
	bool there;
	double seconds; /* of the processor, that it took */
	struct trial_clean clean;
};

struct child {
	const struct campaign_options *options;
	int in, out;
	struct cached cache[CACHED];
	int next;
	int phase;
	int64_t number;
};

uint64_t campaign_mix(uint64_t seed, uint64_t a, uint64_t b)
{
	uint64_t h = seed ^ a * UINT64_C(0x9e3779b97f4a7c15) ^ b * UINT64_C(0xd1b54a32d192ed03);

	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
	return (h ^ h >> 31) & UINT32_MAX; /* short enough to be read */
}

/* ---- pipes ---- */

static bool write_all(int fd, const void *data, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = write(fd, (const char *)data + done, n - done);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		done += (size_t)k;
	}
	return true;
}

static bool read_all(int fd, void *data, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t k = read(fd, (char *)data + done, n - done);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return false;
		done += (size_t)k;
	}
	return true;
}

/* ---- in the child ---- */

static void tell(const struct child *c, struct message *m)
{
	m->number = c->number;
	m->phase = c->phase;
	if (!write_all(c->out, m, sizeof *m))
		_exit(0); /* nobody is there to hear it */
}

static double processor_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Time of the processor, not of the clock: what else the machine does ends no trial. */
static void time_limit(double seconds)
{
	struct itimerval timer = {.it_value = {(time_t)seconds, (suseconds_t)((seconds - floor(seconds)) * 1e6)}};
	setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

static int clean_get(struct child *c, uint64_t workload, struct cached **out, struct error *e)
{
	for (int i = 0; i < CACHED; i++)
		if (c->cache[i].there && c->cache[i].clean.workload.seed == workload) {
			*out = &c->cache[i];
			return 0;
		}
	*out = &c->cache[c->next++ % CACHED];
	double start = processor_seconds();
	(*out)->there = false;
	TRY(trial_clean_make(c->options->model, workload, &(*out)->clean, e));
	(*out)->seconds = processor_seconds() - start;
	(*out)->there = true;
	return 0;
}

static int type_number(const struct fault_type *type)
{
	int i = 0;
	while (fault_type(i) != type)
		i++;
	return i;
}

/* For every type the first workload of the round where it can act. */
static int survey(struct child *c, struct error *e)
{
	const struct campaign_options *o = c->options;
	struct message m = {.kind = TELL_SURVEY};
	int left = o->n_types;

	for (int k = 0; k < SURVEY_WORKLOADS && (left > 0 || k == 0); k++) {
		struct cached *cached;
		uint64_t workload = campaign_mix(o->seed, (uint64_t)c->number, (uint64_t)k + 100);
		TRY(clean_get(c, workload, &cached, e));
		for (int i = 0; i < o->n_types; i++) {
			if (m.survey.points[i] > 0)
				continue;
			m.survey.workload[i] = workload;
			m.survey.points[i] = cached->clean.points[type_number(o->types[i])];
			left -= m.survey.points[i] > 0;
		}
	}
	tell(c, &m);
	return 0;
}

static void incident_tell(void *context, const struct guard_incident *incident)
{
	struct message m = {.kind = TELL_INCIDENT, .incident = *incident};
	tell(context, &m);
}

static int phase_run(struct child *c, const struct campaign_plan *plan, struct error *e)
{
	const struct campaign_options *o = c->options;
	bool observe = c->phase == PHASE_OBSERVED;
	struct message m = {.kind = TELL_PHASE};
	struct cached *cached;

	TRY(clean_get(c, plan->workload, &cached, e));
	tell(c, &m);
	struct trial_run run = {.model = o->model,
		.clean = &cached->clean,
		.plan = {plan->type, plan->occurrence, plan->seed},
		.level = observe ? GUARD_DIGEST : o->levels[c->phase],
		.observe = observe,
		.sink = incident_tell,
		.sink_context = c,
		.plant = o->plant};
	time_limit(HANG_SECONDS + HANG_TIMES * cached->seconds);
	m.kind = TELL_FACTS;
	int status = trial_run(&run, &m.facts, e);
	time_limit(0);
	if (status == 0)
		tell(c, &m);
	return status;
}

static int trial(struct child *c, const struct message *asked, struct error *e)
{
	struct message done = {.kind = TELL_DONE};

	for (c->phase = asked->phase; c->phase < c->options->n_levels; c->phase++)
		if (c->phase != PHASE_OBSERVED || asked->plan.type)
			TRY(phase_run(c, &asked->plan, e));
	tell(c, &done);
	return 0;
}

/* A fault may corrupt anything: nothing that this process holds is used by another. */
static void child_main(struct child *c)
{
	struct message asked;

	while (read_all(c->in, &asked, sizeof asked)) {
		struct error e = {0};
		c->number = asked.number;
		c->phase = asked.phase;
		int status = asked.kind == ASK_SURVEY ? survey(c, &e) : trial(c, &asked, &e);
		if (status == 0)
			continue;
		struct message m = {.kind = TELL_ERROR};
		m.error.code = e.code;
		snprintf(m.error.text, sizeof m.error.text, "%.*s", (int)sizeof m.error.text - 1, e.message);
		tell(c, &m);
	}
	_exit(0);
}

static void child_prepare(pid_t parent)
{
	struct rlimit none = {0, 0};
	int null = open("/dev/null", O_WRONLY);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	setrlimit(RLIMIT_CORE, &none);
	signal(SIGINT, SIG_IGN); /* the parent decides */
	signal(SIGTERM, SIG_IGN);
	signal(SIGVTALRM, SIG_DFL);
	if (null >= 0)
		dup2(null, STDERR_FILENO); /* what a broken engine says in dying */
}

/* ---- in the parent ---- */

static void others_close(const struct worker *w, const struct worker *all, int n)
{
	for (int i = 0; i < n; i++) {
		if (&all[i] == w || all[i].pid == 0)
			continue;
		close(all[i].to);
		close(all[i].from);
	}
}

int worker_start(struct worker *w, const struct worker *all, int n, const struct campaign_options *o, struct error *e)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1};
	pid_t parent = getpid();

	*w = (struct worker){0};
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || (w->pid = fork()) < 0) {
		int number = errno;
		for (int i = 0; i < 2; i++) {
			close(in[i]);
			close(out[i]);
		}
		w->pid = 0;
		return error_set(e, ERR_IO, "cannot start a process for trials: %s", strerror(number));
	}
	if (w->pid == 0) {
		struct child *c = calloc(1, sizeof *c);
		close(in[1]);
		close(out[0]);
		others_close(w, all, n);
		child_prepare(parent);
		if (!c)
			_exit(1);
		*c = (struct child){.options = o, .in = in[0], .out = out[1]};
		child_main(c);
	}
	close(in[0]);
	close(out[1]);
	w->to = in[1];
	w->from = out[0];
	return 0;
}

int worker_ask(struct worker *w, const struct message *m, struct error *e)
{
	w->asked = *m;
	w->phase = m->phase;
	w->busy = true;
	if (write_all(w->to, m, sizeof *m))
		return 0;
	return error_set(e, ERR_IO, "a process for trials does not listen: %s", strerror(errno));
}

int worker_hear(struct worker *w, struct message *m)
{
	return read_all(w->from, m, sizeof *m);
}

bool worker_end(struct worker *w, bool kill_it)
{
	int status = 0;

	if (kill_it)
		kill(w->pid, SIGKILL);
	close(w->to);
	close(w->from);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	w->busy = false;
	return kill_it || (WIFSIGNALED(status) && WTERMSIG(status) == SIGVTALRM);
}
