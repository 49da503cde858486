#include "evals/distribution.h"

#include <math.h>

#include "engine/base/json_strict.h"
#include "reports/stats.h"

int distribution_add(struct distribution *d, double value, struct error *e)
{
	if (d->count == d->capacity) {
		size_t capacity = d->capacity ? 2 * d->capacity : 256;
		double *values = realloc(d->values, capacity * sizeof *values);
		if (!values)
			return error_set(e, ERR_MEMORY, "out of memory for %zu latencies", capacity);
		d->values = values;
		d->capacity = capacity;
	}
	d->values[d->count++] = value;
	return 0;
}

void distribution_free(struct distribution *d)
{
	free(d->values);
	*d = (struct distribution){0};
}

double distribution_mean(const struct distribution *d)
{
	double sum = 0.0;
	for (size_t i = 0; i < d->count; i++)
		sum += d->values[i];
	return d->count ? sum / (double)d->count : NAN;
}

double distribution_quantile(struct distribution *d, double q)
{
	sample_sort(d->values, d->count);
	return sample_quantile(d->values, d->count, q);
}

void distribution_write(struct distribution *d, struct buf *out)
{
	static const struct {
		const char *name;
		double q;
	} quantiles[] = {{"median", 0.5}, {"p95", 0.95}, {"p99", 0.99}};

	if (d->count == 0) {
		buf_append_text(out, "null");
		return;
	}
	buf_append_text(out, "{\"mean\": ");
	json_write_double(distribution_mean(d), out);
	for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
		buf_printf(out, ", \"%s\": ", quantiles[i].name);
		json_write_double(distribution_quantile(d, quantiles[i].q), out);
	}
	buf_append_char(out, '}');
}
