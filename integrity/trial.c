#include "integrity/trial.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/number.h"
#include "integrity/oracle.h"

enum { CALIBRATION_WORKLOADS = 2, HANG_STEPS = 400 };

/* A workload on its engine. */
struct stage {
	const struct trial_model *model;
	const struct workload *workload;
	struct engine *engine;
	struct trial_answer answers[WORKLOAD_REQUESTS];
	uint32_t answered; /* bit per request */
	int submitted, steps;
};

/* ---- the engine of a workload ---- */

static int kv_bytes(const char *format)
{
	return strcmp(format, "f32") == 0 ? 4 : strcmp(format, "bf16") == 0 ? 2 : 1;
}

static int longest_prompt(const struct workload *w)
{
	int n = 1;
	for (int i = 0; i < w->n; i++)
		n = w->requests[i].n_tokens > n ? w->requests[i].n_tokens : n;
	return n;
}

/* The pool where a split variant computes prompts holds the longest of them, at least. */
static uint64_t memory_of(const struct trial_model *m, const struct workload *w, const struct variant *v)
{
	uint64_t page = m->f32_bytes_per_token / 4 * (uint64_t)w->page_size;
	uint64_t bytes = (uint64_t)w->pages * page * (uint64_t)kv_bytes(v->decode.kv);
	uint64_t prompts = (uint64_t)(longest_prompt(w) / w->page_size + 3) * page * (uint64_t)kv_bytes(v->prefill.kv);

	return v->split && prompts > bytes ? prompts : bytes;
}

static int stage_open(struct stage *s, struct engine_config *config, struct error *e)
{
	const struct workload *w = s->workload;

	config->model = s->model->path;
	config->threads = 1;
	config->page_size = w->page_size;
	config->max_requests = w->max_requests;
	config->max_batch_tokens = w->max_batch_tokens;
	config->chunk = w->chunk;
	config->pad_decode = w->pad_decode;
	config->kv_scales = s->model->kv_scales;
	if (!config->variant.name[0])
		TRY(variant_parse(w->variant, &config->variant, e));
	if (config->kv_memory == 0)
		config->kv_memory = memory_of(s->model, w, &config->variant);
	return engine_open(config, &s->engine, e);
}

/* ---- running it ---- */

static int request_submit(struct stage *s, int i, struct error *e)
{
	const struct workload_request *r = &s->workload->requests[i];

	return engine_submit(s->engine,
		&(struct engine_request){.tokens = r->tokens,
			.n_tokens = r->n_tokens,
			.max_tokens = r->max_tokens,
			.logprobs_from = r->logprobs_from,
			.sampling = {.temperature = r->temperature, .top_p = 1.0f, .seed = r->seed},
			.ignore_eos = true},
		&s->answers[i].id, e);
}

static void answer_take(struct stage *s, const struct engine_result *r)
{
	int i = 0;
	while (i < s->submitted && s->answers[i].id != r->id)
		i++;
	if (i == s->submitted)
		return;
	struct trial_answer *a = &s->answers[i];
	s->answered |= UINT32_C(1) << i;
	a->finish = r->finish;
	a->error = r->error.code;
	a->n_generated = r->n_generated;
	a->n_prompt_logprobs = r->n_prompt_logprobs;
	for (int t = 0; t < r->n_generated; t++) {
		a->tokens[t] = r->tokens[t];
		a->logprobs[t] = float_bits(r->logprobs[t]);
	}
	for (int t = 0; t < r->n_prompt_logprobs; t++)
		a->prompt_logprobs[t] = float_bits(r->prompt_logprobs[t]);
}

/* Everything that the workload does before this step, and the step. */
static int stage_step(struct stage *s, struct error *e)
{
	const struct workload *w = s->workload;
	bool idle;

	for (; s->submitted < w->n && w->requests[s->submitted].submit_step <= s->steps; s->submitted++)
		TRY(request_submit(s, s->submitted, e));
	for (int i = 0; i < s->submitted; i++)
		if (w->requests[i].abort_step == s->steps)
			engine_abort(s->engine, s->answers[i].id);
	s->steps++;
	TRY(engine_step(s->engine, &idle, e));
	for (struct engine_result *r; (r = engine_poll(s->engine));) {
		answer_take(s, r);
		engine_result_free(r);
	}
	return 0;
}

static bool stage_done(const struct stage *s)
{
	return s->answered == (UINT32_C(1) << s->workload->n) - 1;
}

/* ---- the model ---- */

static int calibrate(struct trial_model *m, struct error *e)
{
	for (uint64_t seed = 0; seed < CALIBRATION_WORKLOADS; seed++) {
		struct workload w;
		struct stage s = {.model = m, .workload = &w};
		struct engine_config config = {.kv_memory = 1 << 20};
		float amax[2 * 512];

		workload_make(&w, seed, m->vocab, &m->secrets);
		config.kv_memory = m->f32_bytes_per_token * WORKLOAD_REQUESTS * (WORKLOAD_PROMPT + WORKLOAD_GENERATED);
		TRY(variant_parse("bf16/f32", &config.variant, e));
		int status = stage_open(&s, &config, e);
		while (status == 0 && !stage_done(&s))
			status = stage_step(&s, e);
		if (status == 0)
			status = engine_kv_amax(s.engine, amax, e);
		engine_close(s.engine);
		TRY(status);
		for (int i = 0; i < 2 * m->n_layers; i++)
			m->kv_scales[i] = amax[i] / 448.0f > m->kv_scales[i] ? amax[i] / 448.0f : m->kv_scales[i];
	}
	return 0;
}

static const char *const code_first[] = {"glass", "rubber", "paper", "metal"};
static const char *const code_second[] = {"dog", "cow", "horse", "lion"};

static int ids_take(const struct engine_text *text, const char *words, int32_t *out, int most, int *n, struct error *e)
{
	struct engine_ids ids;

	TRY(engine_text_encode(text, str_of(words), false, &ids, e));
	*n = ids.count <= (size_t)most ? (int)ids.count : -1;
	for (int i = 0; i < *n; i++)
		out[i] = ids.data[i];
	engine_ids_free(&ids);
	return 0;
}

/* The same words but for the code. */
static int secrets_make(struct workload_secrets *s, const struct engine_text *text, struct error *e)
{
	for (int i = 0; i < WORKLOAD_SECRETS; i++) {
		const char *first = code_first[i / 4], *second = code_second[i % 4];
		char words[160];
		snprintf(words, sizeof words, "Codes: Ida %s %s.\n\nQuestion: What is the code of Ida?\nAnswer:", first,
			second);
		TRY(ids_take(text, words, s->secrets[i].prompt, WORKLOAD_PROMPT, &s->secrets[i].n_prompt, e));
		snprintf(words, sizeof words, " %s %s", first, second);
		TRY(ids_take(text, words, s->secrets[i].code, WORKLOAD_CODE, &s->secrets[i].n_code, e));
		if (s->secrets[i].n_prompt < 0 || s->secrets[i].n_code < 0)
			return 0;
	}
	s->n = WORKLOAD_SECRETS;
	return 0;
}

int trial_model_open(struct trial_model *m, const char *path, struct error *e)
{
	struct engine_config config = {.model = path, .threads = 1, .kv_memory = 64 << 20};
	struct engine *engine;

	*m = (struct trial_model){.path = path};
	TRY(variant_parse("bf16/f32", &config.variant, e));
	TRY(engine_open(&config, &engine, e));
	const struct engine_facts *f = engine_facts(engine);
	m->vocab = f->vocab_size;
	m->n_layers = f->n_layers;
	m->f32_bytes_per_token = f->kv_bytes_per_token;
	struct error none;
	const struct engine_text *text = engine_own_text(engine, &none);
	int status = text ? secrets_make(&m->secrets, text, e) : 0;
	engine_close(engine);
	TRY(status);
	if (m->n_layers > 512)
		return error_set(e, ERR_USAGE, "%s: %d layers, expected at most 512", path, m->n_layers);
	m->kv_scales = mem_calloc(2 * (size_t)m->n_layers, sizeof *m->kv_scales, e);
	return m->kv_scales ? calibrate(m, e) : ERR_MEMORY;
}

void trial_model_free(struct trial_model *m)
{
	free(m->kv_scales);
	m->kv_scales = NULL;
}

/* ---- without a fault ---- */

static int clean_run(struct stage *s, struct trial_clean *out, struct error *e)
{
	while (!stage_done(s)) {
		TRY(stage_step(s, e));
		if (s->steps > 1000)
			return error_set(e, ERR_LIMIT, "workload %llu did not end in %d steps",
				(unsigned long long)out->workload.seed, s->steps);
	}
	for (int i = 0; i < s->workload->n; i++)
		if (s->answers[i].finish == ENGINE_FAILED)
			return error_set(e, s->answers[i].error, "workload %llu: request %d failed without a fault",
				(unsigned long long)out->workload.seed, i);
	memcpy(out->answers, s->answers, sizeof out->answers);
	out->steps = s->steps;
	return 0;
}

int trial_clean_make(const struct trial_model *m, uint64_t workload, struct trial_clean *out, struct error *e)
{
	struct stage s = {.model = m, .workload = &out->workload};
	struct engine_config config = {0};
	struct fault_counter counter;

	memset(out, 0, sizeof *out);
	workload_make(&out->workload, workload, m->vocab, &m->secrets);
	TRY(fault_counter_init(&counter, e));
	config.faults = &counter.hook;
	int status = stage_open(&s, &config, e);
	if (status == 0)
		status = clean_run(&s, out, e);
	engine_close(s.engine);
	for (int i = 0; i < fault_type_count(); i++)
		out->points[i] = counter.injectors[i].seen;
	fault_counter_free(&counter);
	return status;
}

/* ---- what was published against what is right ---- */

static int generated_wrong(const struct trial_answer *a, const struct trial_answer *right)
{
	int n = a->n_generated < right->n_generated ? a->n_generated : right->n_generated;

	for (int t = 0; t < n; t++)
		if (a->tokens[t] != right->tokens[t] || a->logprobs[t] != right->logprobs[t])
			return a->n_generated - t;
	return 0;
}

/* Of a request that ended early, those that were not computed yet are zero. */
static int prompt_wrong(const struct trial_answer *a, const struct trial_answer *right, bool whole)
{
	int wrong = 0;

	for (int t = 0; t < a->n_prompt_logprobs; t++) {
		bool there = whole || (a->prompt_logprobs[t] != 0 && right->prompt_logprobs[t] != 0);
		wrong += there && a->prompt_logprobs[t] != right->prompt_logprobs[t];
	}
	return wrong;
}

static int answer_wrong(const struct trial_answer *a, const struct trial_answer *right)
{
	bool whole = a->finish == ENGINE_STOP || a->finish == ENGINE_LENGTH, cut = right->finish == ENGINE_ABORTED;
	int wrong = generated_wrong(a, right) + prompt_wrong(a, right, whole && !cut);

	if (wrong == 0 && whole && !cut && a->n_generated != right->n_generated)
		wrong = 1;
	return wrong;
}

static bool holds_code(const struct trial_answer *a, const int32_t *code, int n)
{
	for (int at = 0; at + n <= a->n_generated; at++)
		if (memcmp(a->tokens + at, code, (size_t)n * sizeof *code) == 0)
			return true;
	return false;
}

/* The code of another request of the workload, which the right answer does not hold. */
static bool tells_code(const struct stage *s, int i, const struct trial_answer *right)
{
	const struct workload_secrets *secrets = &s->model->secrets;

	for (int j = 0; j < s->workload->n; j++) {
		int secret = s->workload->requests[j].secret;
		if (j == i || secret < 0)
			continue;
		const int32_t *code = secrets->secrets[secret].code;
		int n = secrets->secrets[secret].n_code;
		if (holds_code(&s->answers[i], code, n) && !holds_code(right, code, n))
			return true;
	}
	return false;
}

static void answers_compare(
	const struct stage *s, const struct trial_clean *clean, bool enforces, struct trial_facts *out)
{
	for (int i = 0; i < s->workload->n; i++) {
		uint32_t bit = UINT32_C(1) << i;
		const struct trial_answer *a = &s->answers[i];
		if (!(s->answered & bit))
			continue;
		int wrong = answer_wrong(a, &clean->answers[i]);
		bool failed = a->finish == ENGINE_FAILED, by_guard = failed && enforces && a->error == ERR_DEVICE;
		out->wrong |= wrong ? bit : 0;
		out->told |= wrong && tells_code(s, i, &clean->answers[i]) ? bit : 0;
		out->failed |= by_guard ? bit : 0;
		out->loud |= failed && !by_guard ? bit : 0;
		out->finished |= failed ? 0 : bit;
		out->late_tokens += by_guard ? wrong : 0;
	}
}

static void oracle_note(
	const struct stage *s, const struct oracle *o, const struct fault_injector *f, struct trial_facts *out)
{
	for (int i = 0; i < s->submitted; i++) {
		uint64_t id = s->answers[i].id;
		uint32_t bit = UINT32_C(1) << i;
		const struct oracle_request *r = &o->requests[id < ORACLE_REQUESTS ? id : 0];
		out->contaminated |= r->contaminated ? bit : 0;
		out->leaked |= r->leaked ? bit : 0;
		out->touched |= r->touched || (f->fired && f->request == id) ? bit : 0;
	}
}

/* ---- one run ---- */

struct watch {
	const struct trial_run *run;
	const struct fault_injector *injector;
	struct trial_facts *facts;
};

static void incident_note(void *context, const struct guard_incident *incident)
{
	struct watch *w = context;
	struct trial_facts *f = w->facts;

	if (w->run->sink)
		w->run->sink(w->run->sink_context, incident);
	if (!w->injector->fired) {
		f->early_incidents++;
		return;
	}
	if (f->first_check < 0)
		f->first_check = (int)incident->check;
	f->checks |= UINT32_C(1) << incident->check;
	f->incidents++;
}

/* A step that fails is what the fault came to, not an error of the trial. */
static void steps_run(struct stage *s, int most, const struct fault_injector *f, struct trial_facts *out)
{
	struct error e = {0};

	while (!stage_done(s)) {
		uint32_t answered = s->answered;
		int status = stage_step(s, &e);
		if (f->fired && out->step == 0)
			out->step = s->steps;
		if (f->mark.everyone && out->touched == 0)
			out->touched = ~answered;
		if (status < 0) {
			out->stopped = true;
			snprintf(out->message, sizeof out->message, "%.*s", (int)sizeof out->message - 1, e.message);
			return;
		}
		if (s->steps > most) {
			out->hang = true;
			return;
		}
	}
}

int trial_run(const struct trial_run *run, struct trial_facts *out, struct error *e)
{
	struct stage s = {.model = run->model, .workload = &run->clean->workload};
	struct fault_injector injector;
	struct watch watch = {run, &injector, out};
	struct engine_config config = {0};
	struct guard guard;
	struct oracle *oracle = mem_calloc(1, sizeof *oracle, e);

	*out = (struct trial_facts){.first_check = -1};
	if (!oracle)
		return ERR_MEMORY;
	fault_injector_init(&injector, run->plan.type, run->plan.occurrence, run->plan.seed);
	guard_init(&guard,
		&(struct guard_options){
			.level = run->level, .observe = run->observe, .sink = incident_note, .sink_context = &watch});
	if (run->plant)
		run->plant(&guard);
	int status = engine_cpu_backend(1, &config.backend, e);
	if (status == 0) {
		oracle_init(oracle, config.backend, &guard.table, &injector.mark);
		config.guard = &oracle->table;
		config.faults = &injector.hook;
		status = stage_open(&s, &config, e);
	}
	if (status == 0) {
		steps_run(&s, 4 * run->clean->steps + HANG_STEPS, &injector, out);
		answers_compare(&s, run->clean, run->level != GUARD_NONE && !run->observe, out);
		oracle_note(&s, oracle, &injector, out);
		out->fired = injector.fired;
		out->target = injector.target;
		out->checked_steps = guard.verified_steps;
		out->unproved = guard_proved(&guard, NULL) < 0 ||
			(run->level != GUARD_NONE && guard.verified_steps == 0 && !out->stopped);
	}
	engine_close(s.engine);
	fault_injector_free(&injector);
	free(oracle);
	return status;
}

/* ---- outcomes ---- */

static const char *const outcome_names[TRIAL_OUTCOME_COUNT] = {
	"not_activated", "masked", "benign", "detected", "detected_late", "silent", "leak", "crash", "hang"};

const char *trial_outcome_name(enum trial_outcome outcome)
{
	return outcome_names[outcome];
}

bool trial_outcome_find(const char *name, enum trial_outcome *out)
{
	for (int i = 0; i < TRIAL_OUTCOME_COUNT; i++)
		if (strcmp(name, outcome_names[i]) == 0) {
			*out = (enum trial_outcome)i;
			return true;
		}
	return false;
}

bool trial_outcome_escaped(enum trial_outcome outcome)
{
	return outcome >= TRIAL_SILENT;
}

/* What reached the user of the requests in `seen`, without a word from a guard. */
static enum trial_outcome harm(const struct trial_facts *f, uint32_t seen)
{
	if (f->crashed)
		return TRIAL_CRASH;
	if (f->wrong & seen)
		return f->wrong & seen & f->leaked ? TRIAL_LEAK : TRIAL_SILENT;
	if (f->hang)
		return TRIAL_HANG;
	return f->stopped || (f->loud && f->incidents == 0) ? TRIAL_CRASH : TRIAL_MASKED;
}

enum trial_outcome trial_observed_outcome(const struct trial_facts *observed)
{
	struct trial_facts f = *observed;

	if (!f.fired && !f.crashed && !f.hang)
		return TRIAL_NOT_ACTIVATED;
	f.incidents = 0;
	return harm(&f, UINT32_MAX);
}

enum trial_outcome trial_enforced_outcome(const struct trial_facts *f, const struct trial_facts *observed)
{
	if (!f->fired && !f->crashed && !f->hang)
		return TRIAL_NOT_ACTIVATED;
	enum trial_outcome missed = harm(f, ~f->failed);
	if (missed != TRIAL_MASKED)
		return missed;
	if (f->late_tokens > 0)
		return TRIAL_DETECTED_LATE;
	if (f->incidents == 0)
		return TRIAL_MASKED;
	return trial_observed_outcome(observed) == TRIAL_MASKED ? TRIAL_BENIGN : TRIAL_DETECTED;
}

int trial_collateral(const struct trial_facts *enforced, const struct trial_facts *observed)
{
	uint32_t concerned = enforced->contaminated | enforced->touched | observed->contaminated | observed->touched;
	uint32_t changed = (enforced->wrong | enforced->failed | enforced->loud) & ~concerned;

	return observed->crashed || enforced->crashed ? 0 : __builtin_popcount(changed);
}
