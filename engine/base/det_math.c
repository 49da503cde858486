#include "engine/base/det_math.h"

#include <math.h>
#include <stdint.h>

/* ln 2 and pi/2 in parts: the leading ones have so few bits that a product with the quotient is exact. */
static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
static const double half_pi_1 = 0x1.921fb544p+0, half_pi_2 = 0x1.0b4611a6p-34, half_pi_3 = 0x1.3198a2e037073p-69;

/* log x = e ln 2 + 2 atanh s with m in [1/sqrt 2, sqrt 2), s = (m - 1) / (m + 1): |s| < 0.172, 11 terms reach 1e-18. */
double det_log(double x)
{
	int exponent;
	double m = frexp(x, &exponent);

	if (m < 0x1.6a09e667f3bcdp-1) {
		m *= 2.0;
		exponent--;
	}
	double s = (m - 1.0) / (m + 1.0), z = s * s, series = 0.0;
	for (int k = 23; k >= 3; k -= 2)
		series = (series + 1.0 / k) * z;
	double e = exponent;
	return e * ln2_high + (e * ln2_low + 2.0 * s * series + 2.0 * s);
}

/* exp x = 2^k exp r, |r| <= ln 2 / 2, Taylor to r^14. */
double det_exp(double x)
{
	double k = rint(x * 0x1.71547652b82fep+0);
	double r = (x - k * ln2_high) - k * ln2_low, series = 1.0;

	for (int n = 14; n >= 1; n--)
		series = 1.0 + series * r / n;
	return ldexp(series, (int)k);
}

double det_pow(double base, double exponent)
{
	return det_exp(exponent * det_log(base));
}

/* Cody-Waite reduction by pi/2 in three parts, then Taylor on |r| <= pi/4. */
void det_sincos(double x, double *sine, double *cosine)
{
	double q = rint(x * 0x1.45f306dc9c883p-1);
	double r = ((x - q * half_pi_1) - q * half_pi_2) - q * half_pi_3, z = r * r;
	double s = 1.0, c = 1.0;

	for (int n = 18; n >= 2; n -= 2) {
		s = 1.0 - s * z / (double)(n * (n + 1));
		c = 1.0 - c * z / (double)((n - 1) * n);
	}
	s *= r;
	switch ((int64_t)q & 3) {
	case 0:
		*sine = s, *cosine = c;
		break;
	case 1:
		*sine = c, *cosine = -s;
		break;
	case 2:
		*sine = -s, *cosine = -c;
		break;
	default:
		*sine = -c, *cosine = s;
	}
}
