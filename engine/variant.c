#include "engine/engine.h"

#include "engine/model/weights.h"

static int kv_known(const char *name)
{
	for (int f = KV_F32; f <= KV_E4M3; f++)
		if (strcmp(kv_format_name((enum kv_format)f), name) == 0)
			return 1;
	return 0;
}

/* text is "W/K", of the given length. */
static int phase_parse(const char *whole, const char *text, size_t length, struct variant_phase *out, struct error *e)
{
	const char *slash = memchr(text, '/', length);
	size_t weights = slash ? (size_t)(slash - text) : 0, kv = slash ? length - weights - 1 : 0;

	if (!slash || weights == 0 || kv == 0 || weights >= sizeof out->weights || kv >= sizeof out->kv)
		return error_set(e, ERR_USAGE,
			"variant '%.80s': expected weights/KV, such as int4/fp8, or prefill>decode", whole);
	*out = (struct variant_phase){{0}, {0}};
	memcpy(out->weights, text, weights);
	memcpy(out->kv, slash + 1, kv);
	if (!weight_scheme_find(out->weights))
		return error_set(e, ERR_USAGE, "variant '%.80s': weights '%s' are not known; expected one of %s", whole,
			out->weights, weight_scheme_names());
	if (!kv_known(out->kv))
		return error_set(e, ERR_USAGE,
			"variant '%.80s': KV format '%s' is not known; expected one of f32 bf16 fp8", whole, out->kv);
	return 0;
}

int variant_parse(const char *text, struct variant *out, struct error *e)
{
	const char *arrow = strchr(text, '>');
	size_t first = arrow ? (size_t)(arrow - text) : strlen(text);

	*out = (struct variant){.split = arrow != NULL};
	TRY(phase_parse(text, text, first, &out->prefill, e));
	out->decode = out->prefill;
	if (arrow)
		TRY(phase_parse(text, arrow + 1, strlen(arrow + 1), &out->decode, e));
	if (arrow)
		snprintf(out->name, sizeof out->name, "%s/%s>%s/%s", out->prefill.weights, out->prefill.kv,
			out->decode.weights, out->decode.kv);
	else
		snprintf(out->name, sizeof out->name, "%s/%s", out->prefill.weights, out->prefill.kv);
	return 0;
}
