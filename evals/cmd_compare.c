#include "evals/cli.h"
#include "evals/console.h"
#include "evals/sides.h"
#include "evals/verdict_text.h"
#include "reports/verdict_json.h"

static int print_comparison(
	const struct options *o, const struct console *c, const struct verdict *v, struct buf *out, struct error *e)
{
	if (o->json)
		return verdict_json(v, o->flips, out, e);
	TRY(verdict_text(v, c->color_output, out, e));
	return o->flips ? verdict_flips_text(v, c->color_output, out, e) : 0;
}

int cmd_compare(const struct options *o, struct error *e)
{
	struct console c;
	struct pairing pairing;
	struct verdict verdict = {0};
	struct buf out = {0};
	console_init(&c, o, stdout, stderr);
	int status = sides_pair(o, o->arguments[0], o->arguments[1], NULL, &pairing, e);
	if (status == 0)
		status = verdict_compare(&pairing, &verdict, e);
	if (status == 0)
		status = sides_measure_aa(&verdict, e);
	if (status == 0)
		status = print_comparison(o, &c, &verdict, &out, e);
	if (status == 0)
		fwrite(buf_text(&out), 1, out.length, stdout);
	buf_free(&out);
	verdict_free(&verdict);
	pairing_free(&pairing);
	return error_exit_code(status);
}
