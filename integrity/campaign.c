#include "integrity/campaign.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/thread_pool.h"
#include "integrity/campaign_internal.h"

enum { SILENT_MILLISECONDS = 600 * 1000, ASK_STOP_MILLISECONDS = 200 };

/* A set of jobs under way: rounds to survey, or trials. */
struct dispatch {
	struct campaign *campaign;
	struct worker workers[CAMPAIGN_WORKERS];
	int n_workers;
	struct survey *surveys; /* [rounds] while they are made */
	int64_t next, total, done;
	bool stopping;
};

/* ---- what workers say ---- */

static int incident_keep(struct campaign_trial *t, const struct message *m, struct error *e)
{
	struct campaign_incident *more = realloc(t->incidents, (size_t)(t->n_incidents + 1) * sizeof *t->incidents);

	if (!more)
		return error_set(e, ERR_MEMORY, "out of memory for %d incidents of a trial", t->n_incidents + 1);
	t->incidents = more;
	t->incidents[t->n_incidents++] = (struct campaign_incident){m->phase, m->incident};
	return 0;
}

static struct trial_facts *facts_of(struct campaign_trial *t, int phase)
{
	return phase == PHASE_OBSERVED ? &t->observed : &t->enforced[phase];
}

static int trial_finish(struct dispatch *d, struct campaign_trial *t, struct error *e)
{
	const struct campaign_options *o = &d->campaign->options;

	t->done = true;
	d->done++;
	int status = o->sink ? o->sink(o->context, t, e) : 0;
	free(t->incidents);
	t->incidents = NULL;
	t->n_incidents = 0;
	if (o->progress)
		o->progress(o->context, d->done, d->total);
	return status;
}

static int message_take(struct dispatch *d, struct worker *w, const struct message *m, struct error *e)
{
	struct campaign_trial *t = d->surveys ? NULL : &d->campaign->trials[m->number];

	switch (m->kind) {
	case TELL_SURVEY:
		d->surveys[m->number] = m->survey;
		w->busy = false;
		d->done++;
		return 0;
	case TELL_PHASE:
		w->phase = m->phase;
		return 0;
	case TELL_INCIDENT:
		return incident_keep(t, m, e);
	case TELL_FACTS:
		*facts_of(t, m->phase) = m->facts;
		return 0;
	case TELL_DONE:
		w->busy = false;
		return trial_finish(d, t, e);
	default:
		return error_set(e, m->error.code, "%s", m->error.text);
	}
}

/* The worker died in a phase: that is what the fault came to. The next phase goes to a fresh one. */
static int death_take(struct dispatch *d, struct worker *w, bool silent, struct error *e)
{
	struct message asked = w->asked;
	bool busy = w->busy;
	int phase = w->phase;
	bool hang = worker_end(w, silent);

	TRY(worker_start(w, d->workers, d->n_workers, &d->campaign->options, e));
	if (!busy)
		return 0;
	if (d->surveys || !asked.plan.type)
		return error_set(e, ERR_DEVICE, "a process died in %s %lld, where there was no fault",
			d->surveys ? "the survey of round" : "trial", (long long)asked.number);
	struct campaign_trial *t = &d->campaign->trials[asked.number];
	*facts_of(t, phase) = (struct trial_facts){.crashed = !hang, .hang = hang, .first_check = -1};
	asked.phase = phase + 1;
	if (asked.phase < d->campaign->options.n_levels)
		return worker_ask(w, &asked, e);
	return trial_finish(d, t, e);
}

/* ---- the loop ---- */

/* False: there is none left. */
static bool job_next(struct dispatch *d, struct message *m)
{
	struct campaign *c = d->campaign;

	if (d->stopping)
		return false;
	while (!d->surveys && d->next < d->total && c->trials[d->next].done)
		d->next++;
	if (d->next >= d->total)
		return false;
	*m = (struct message){.kind = d->surveys ? ASK_SURVEY : ASK_TRIAL, .number = d->next, .phase = PHASE_OBSERVED};
	if (!d->surveys)
		m->plan = c->trials[d->next].plan;
	d->next++;
	return true;
}

/* Waits for any worker that is busy. */
static int workers_hear(struct dispatch *d, struct error *e)
{
	struct pollfd fds[CAMPAIGN_WORKERS];
	struct message m;

	for (int i = 0; i < d->n_workers; i++)
		fds[i] = (struct pollfd){d->workers[i].busy ? d->workers[i].from : -1, POLLIN, 0};
	for (int waited = 0;; waited += ASK_STOP_MILLISECONDS) {
		int n = poll(fds, (nfds_t)d->n_workers, ASK_STOP_MILLISECONDS);
		if (n > 0)
			break;
		if (n < 0 && errno != EINTR)
			return error_set(e, ERR_IO, "cannot wait for the processes of trials: %s", strerror(errno));
		d->stopping |= d->campaign->options.stop && d->campaign->options.stop();
		if (waited < SILENT_MILLISECONDS)
			continue;
		for (int i = 0; i < d->n_workers; i++)
			if (d->workers[i].busy)
				return death_take(d, &d->workers[i], true, e);
	}
	for (int i = 0; i < d->n_workers; i++) {
		if (!fds[i].revents)
			continue;
		if (worker_hear(&d->workers[i], &m))
			TRY(message_take(d, &d->workers[i], &m, e));
		else
			TRY(death_take(d, &d->workers[i], false, e));
	}
	return 0;
}

static int jobs_run(struct dispatch *d, struct error *e)
{
	struct campaign *c = d->campaign;

	for (;;) {
		int busy = 0;
		d->stopping |= c->options.stop && c->options.stop();
		for (int i = 0; i < d->n_workers; i++) {
			struct message m;
			if (!d->workers[i].busy && job_next(d, &m))
				TRY(worker_ask(&d->workers[i], &m, e));
			busy += d->workers[i].busy;
		}
		if (busy == 0)
			break;
		TRY(workers_hear(d, e));
	}
	return d->stopping && d->next < d->total ? error_set(e, ERR_INTERRUPTED, "interrupted") : 0;
}

static int dispatch_run(struct dispatch *d, struct error *e)
{
	int wanted = d->campaign->options.workers ? d->campaign->options.workers : thread_count_default(), status = 0;

	wanted = wanted > CAMPAIGN_WORKERS ? CAMPAIGN_WORKERS : wanted;
	wanted = d->total < wanted ? (int)d->total : wanted;
	while (status == 0 && d->n_workers < wanted) {
		status = worker_start(&d->workers[d->n_workers], d->workers, d->n_workers, &d->campaign->options, e);
		d->n_workers += status == 0;
	}
	if (status == 0)
		status = jobs_run(d, e);
	for (int i = 0; i < d->n_workers; i++)
		if (d->workers[i].pid)
			worker_end(&d->workers[i], d->workers[i].busy);
	return status;
}

/* ---- the plan ---- */

static int trial_add(struct campaign *c, const struct campaign_plan *plan, int64_t *room, struct error *e)
{
	if (c->n_trials == CAMPAIGN_TRIALS)
		return error_set(e, ERR_USAGE, "--trials: expected a campaign of at most %d trials", CAMPAIGN_TRIALS);
	if (c->n_trials == *room) {
		*room = *room ? 2 * *room : 1024;
		struct campaign_trial *more = realloc(c->trials, (size_t)*room * sizeof *more);
		if (!more)
			return error_set(e, ERR_MEMORY, "out of memory for %lld trials", (long long)*room);
		c->trials = more;
	}
	c->trials[c->n_trials] = (struct campaign_trial){.number = c->n_trials, .plan = *plan};
	c->n_trials++;
	return 0;
}

static int rounds_of(const struct campaign_options *o)
{
	return (int)(o->exhaustive ? o->trials : (o->trials + o->n_types - 1) / o->n_types);
}

static int sampled_add(struct campaign *c, const struct survey *s, int64_t *room, struct error *e)
{
	const struct campaign_options *o = &c->options;

	for (int i = 0; i < o->n_types && c->n_trials < o->trials; i++) {
		uint64_t t = (uint64_t)c->n_trials;
		struct campaign_plan plan = {.type = o->types[i],
			.workload = s->workload[i],
			.occurrence = s->points[i] ? (int)(campaign_mix(o->seed, t, 1) % (uint64_t)s->points[i]) : 0,
			.seed = campaign_mix(o->seed, t, 2)};
		TRY(trial_add(c, &plan, room, e));
	}
	return 0;
}

static int exhaustive_add(struct campaign *c, const struct survey *s, int64_t *room, struct error *e)
{
	const struct campaign_options *o = &c->options;

	for (int i = 0; i < o->n_types; i++)
		for (int occurrence = 0; occurrence <= s->points[i]; occurrence++) {
			struct campaign_plan plan = {.type = o->types[i],
				.workload = s->workload[i],
				.occurrence = occurrence,
				.seed = campaign_mix(o->seed, (uint64_t)c->n_trials, 2)};
			TRY(trial_add(c, &plan, room, e));
		}
	return 0;
}

static int surveyed_plan(struct campaign *c, int64_t *room, struct error *e)
{
	int rounds = rounds_of(&c->options), status = 0;
	struct dispatch d = {.campaign = c, .total = rounds};

	d.surveys = mem_calloc((size_t)rounds, sizeof *d.surveys, e);
	if (!d.surveys)
		return ERR_MEMORY;
	status = dispatch_run(&d, e);
	for (int i = 0; status == 0 && i < rounds; i++)
		status = c->options.exhaustive ? exhaustive_add(c, &d.surveys[i], room, e)
					       : sampled_add(c, &d.surveys[i], room, e);
	free(d.surveys);
	return status;
}

int campaign_open(struct campaign *c, const struct campaign_options *options, struct error *e)
{
	int64_t room = 0;

	*c = (struct campaign){.options = *options};
	if (options->replay)
		return trial_add(c, options->replay, &room, e);
	if (options->n_types > 0)
		return surveyed_plan(c, &room, e);
	for (int64_t t = 0; t < options->trials; t++) {
		struct campaign_plan plan = {.workload = campaign_mix(options->seed, (uint64_t)t, 100)};
		TRY(trial_add(c, &plan, &room, e));
	}
	return 0;
}

int campaign_run(struct campaign *c, struct error *e)
{
	struct dispatch d = {.campaign = c, .total = c->n_trials};

	for (int64_t i = 0; i < c->n_trials; i++)
		d.done += c->trials[i].done;
	return dispatch_run(&d, e);
}

void campaign_free(struct campaign *c)
{
	for (int64_t i = 0; i < c->n_trials; i++)
		free(c->trials[i].incidents);
	free(c->trials);
	*c = (struct campaign){0};
}

/* ---- outcomes and replay lines ---- */

enum trial_outcome campaign_observed(const struct campaign_trial *t)
{
	return trial_observed_outcome(&t->observed);
}

enum trial_outcome campaign_enforced(const struct campaign_trial *t, int level)
{
	const struct trial_facts *f = &t->enforced[level];

	if (t->plan.type)
		return trial_enforced_outcome(f, &t->observed);
	return f->early_incidents > 0 ? TRIAL_BENIGN : f->wrong ? TRIAL_SILENT : TRIAL_MASKED;
}

void campaign_replay_line(const struct campaign_plan *plan, const char *level, char out[CAMPAIGN_REPLAY_SIZE])
{
	int n = snprintf(out, CAMPAIGN_REPLAY_SIZE, "seed=%llu workload=%llu site=%s occurrence=%d",
		(unsigned long long)plan->seed, (unsigned long long)plan->workload,
		plan->type ? plan->type->name : "none", plan->occurrence);

	if (level && n > 0 && n < CAMPAIGN_REPLAY_SIZE)
		snprintf(out + n, (size_t)(CAMPAIGN_REPLAY_SIZE - n), " guard=%s", level);
}

static int field_parse(
	const char *key, const char *value, struct campaign_plan *out, enum guard_level *level, struct error *e)
{
	bool is_site = strcmp(key, "site") == 0;
	char *end = NULL;

	if (strcmp(key, "guard") == 0)
		return guard_level_parse(value, level, e);
	if (is_site) {
		out->type = strcmp(value, "none") == 0 ? NULL : fault_type_find(value);
		if (!out->type && strcmp(value, "none") != 0)
			return error_set(e, ERR_USAGE, "site '%s': not known; 'assay inject --list' shows them", value);
		return 0;
	}
	errno = 0;
	unsigned long long n = strtoull(value, &end, 10);
	if (errno || *end || end == value || *value == '-')
		return error_set(e, ERR_USAGE, "%s '%s': expected a number", key, value);
	if (strcmp(key, "seed") == 0)
		out->seed = n;
	else if (strcmp(key, "workload") == 0)
		out->workload = n;
	else if (strcmp(key, "occurrence") == 0 && n <= INT32_MAX)
		out->occurrence = (int)n;
	else
		return error_set(e, ERR_USAGE, "'%s=%s': expected seed, workload, site, occurrence, guard", key, value);
	return 0;
}

int campaign_replay_parse(const char *line, struct campaign_plan *out, enum guard_level *level, struct error *e)
{
	enum { NEEDED = 4 };
	static const char *const names[] = {"seed", "workload", "site", "occurrence", "guard"};
	char text[CAMPAIGN_REPLAY_SIZE * 2];
	unsigned seen = 0;

	*out = (struct campaign_plan){0};
	*level = GUARD_LEVEL_COUNT;
	if (strlen(line) >= sizeof text)
		return error_set(e, ERR_USAGE, "--replay: a line of %zu characters, expected fewer than %zu",
			strlen(line), sizeof text);
	memcpy(text, line, strlen(line) + 1);
	for (char *rest = text, *word; (word = strsep(&rest, " \t"));) {
		if (!*word)
			continue;
		char *equals = strchr(word, '=');
		if (!equals)
			return error_set(e, ERR_USAGE, "--replay: '%s': expected NAME=VALUE", word);
		*equals = 0;
		if (field_parse(word, equals + 1, out, level, e) < 0)
			return error_prefix(e, "--replay");
		for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
			if (strcmp(word, names[i]) != 0)
				continue;
			if (seen & 1u << i)
				return error_set(e, ERR_USAGE, "--replay: %s= stands there twice", word);
			seen |= 1u << i;
		}
	}
	for (unsigned i = 0; i < NEEDED; i++)
		if (!(seen & 1u << i))
			return error_set(e, ERR_USAGE, "--replay: no %s=; expected seed, workload, site and occurrence",
				names[i]);
	return 0;
}
