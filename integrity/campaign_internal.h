/* What passes between a campaign and its workers. */
#ifndef ASSAY_INTEGRITY_CAMPAIGN_INTERNAL_H
#define ASSAY_INTEGRITY_CAMPAIGN_INTERNAL_H

#include <sys/types.h>

#include "integrity/campaign.h"

enum message_kind { ASK_SURVEY, ASK_TRIAL, TELL_SURVEY, TELL_PHASE, TELL_INCIDENT, TELL_FACTS, TELL_DONE, TELL_ERROR };

enum { PHASE_OBSERVED = -1, SURVEY_WORKLOADS = 24 };

/* Of one round: where each type of the campaign can act. */
struct survey {
	uint64_t workload[CAMPAIGN_TYPES];
	int points[CAMPAIGN_TYPES]; /* 0: in none of SURVEY_WORKLOADS workloads */
};

struct message {
	enum message_kind kind;
	int64_t number; /* round or trial */
	int phase;
	union {
		struct campaign_plan plan;
		struct survey survey;
		struct trial_facts facts;
		struct guard_incident incident;
		struct {
			int code;
			char text[400];
		} error;
	};
};

struct worker {
	pid_t pid; /* 0: not running */
	int to, from;
	bool busy;
	struct message asked;
	int phase; /* that it is in */
};

/* A number drawn by (seed, a, b). */
uint64_t campaign_mix(uint64_t seed, uint64_t a, uint64_t b);

/* all: [n] the workers, w among them; a child keeps no end of another's pipes, whose reader would wait for ever. */
int worker_start(struct worker *w, const struct worker *all, int n, const struct campaign_options *o, struct error *e);
int worker_ask(struct worker *w, const struct message *m, struct error *e);
/* The next message; 0 when the worker has died. */
int worker_hear(struct worker *w, struct message *m);
/* Ends a worker that has died, or is to. True: it took too long. */
bool worker_end(struct worker *w, bool kill_it);

#endif
