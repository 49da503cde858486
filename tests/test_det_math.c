/* The elementary functions, against mpmath at chosen points and against long double libm over their whole ranges. */
#include <float.h>
#include <math.h>

#include "engine/base/det_math.h"
#include "tests/ops_golden.h"

const char *const test_program_name = "det_math";

/* Distance to want in units of want's last place. */
static double ulps(double got, long double want)
{
	int exponent;
	frexpl(want, &exponent);
	long double unit = ldexpl(1.0L, (exponent < -1021 ? -1021 : exponent) - 53);
	return (double)fabsl(((long double)got - want) / unit);
}

/* The error of the logarithm grows with the exponent. */
static double pow_tolerance(double base, double exponent)
{
	return 2.0 + 5.0 * fabs(exponent * log(base));
}

enum function { LOG, EXP, POW, SINE, COSINE };

static double worst[COSINE + 1];

static void check_ulps(enum function function, double got, long double want, double tolerance, double x)
{
	double error = ulps(got, want);
	worst[function] = error > worst[function] ? error : worst[function];
	ck_assert_msg(error <= tolerance, "function %d at %a: %a, not %La: %.2f ulp", function, x, got, want, error);
}

static void det_math_row(char **field)
{
	const char *name = field[0];
	bool is_pow = strcmp(name, "pow") == 0, is_sincos = strcmp(name, "sincos") == 0;
	double x = golden_double(field[1]), y = is_pow ? golden_double(field[2]) : 0.0;
	double first = golden_double(field[3]), second = is_sincos ? golden_double(field[4]) : 0.0;

	if (is_sincos) {
		double sine, cosine;
		det_sincos(x, &sine, &cosine);
		check_ulps(SINE, sine, first, 3.0, x);
		check_ulps(COSINE, cosine, second, 3.0, x);
	} else if (is_pow) {
		check_ulps(POW, det_pow(x, y), first, pow_tolerance(x, y), x);
	} else if (strcmp(name, "log") == 0) {
		check_ulps(LOG, det_log(x), first, 2.0, x);
	} else {
		ck_assert_str_eq(name, "exp");
		check_ulps(EXP, det_exp(x), first, 2.0, x);
	}
}

START_TEST(golden)
{
	ck_assert_int_eq(golden_each("det_math.tsv", 5, det_math_row), 300);
}
END_TEST

/* ---- whole ranges; long double has more bits than double where this runs ---- */

enum { POINTS = 50000 };

/* In [0, 1). */
static double unit(uint64_t seed, uint64_t i)
{
	return (double)(hash_at(seed, i) >> 11) * 0x1p-53;
}

START_TEST(sweep)
{
#if LDBL_MANT_DIG <= DBL_MANT_DIG
	SKIP("long double is double here");
#endif
	for (uint64_t i = 0; i < POINTS; i++) {
		double u = unit(900, i), v = unit(901, i), sine, cosine;
		double x = ldexp(1.0 + u, (int)(v * 2044.0) - 1022), near_one = 0.5 + 1.5 * u;
		check_ulps(LOG, det_log(x), logl(x), 2.0, x);
		check_ulps(LOG, det_log(near_one), logl(near_one), 2.0, near_one);
		x = (u - 0.5) * 1399.8;
		check_ulps(EXP, det_exp(x), expl(x), 2.0, x);
		check_ulps(EXP, det_exp(u - 0.5), expl(u - 0.5), 2.0, u - 0.5);
		double base = exp(20.0 * u - 10.0), exponent = 60.0 * v - 30.0;
		check_ulps(POW, det_pow(base, exponent), powl(base, exponent), pow_tolerance(base, exponent), base);
		x = i % 2 ? (u - 0.5) * 3.19e6 : (u - 0.5) * 20.0;
		det_sincos(x, &sine, &cosine);
		check_ulps(SINE, sine, sinl(x), 3.0, x);
		check_ulps(COSINE, cosine, cosl(x), 3.0, x);
	}
	printf("largest error in ulp: log %.2f, exp %.2f, pow %.2f, sin %.2f, cos %.2f\n", worst[LOG], worst[EXP],
		worst[POW], worst[SINE], worst[COSINE]);
}
END_TEST

START_TEST(exact_points)
{
	double sine, cosine;

	ck_assert_double_eq(det_log(1.0), 0.0);
	ck_assert_double_eq(det_exp(0.0), 1.0);
	ck_assert_double_eq(det_pow(5e5, 0.0), 1.0);
	ck_assert_double_eq(det_pow(1.0, 77.0), 1.0);
	det_sincos(0.0, &sine, &cosine);
	ck_assert_double_eq(sine, 0.0);
	ck_assert_double_eq(cosine, 1.0);
	for (double x = 0.1; x < 1.5e6; x *= 1.7) { /* odd and even, to the bit */
		double s, c;
		det_sincos(x, &s, &c);
		det_sincos(-x, &sine, &cosine);
		ck_assert_double_eq(sine, -s);
		ck_assert_double_eq(cosine, c);
	}
}
END_TEST

void test_program_cases(Suite *suite)
{
	TCase *tcase = test_case(suite, "det_math", 0);
	tcase_add_test(tcase, golden);
	tcase_add_test(tcase, sweep);
	tcase_add_test(tcase, exact_points);
}
