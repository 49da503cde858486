/* Elementary functions whose bits depend on no library: libm differs between machines (NUMERICS section 3, rule 9).
 * Double precision, in the ranges given: log and exp err by less than 2 ulp, sine and cosine by less than 3, pow by
 * less than 2 + 5 |exponent * log(base)|, for the error of the logarithm grows. Used at load time and for RoPE
 * angles. */
#ifndef ASSAY_ENGINE_BASE_DET_MATH_H
#define ASSAY_ENGINE_BASE_DET_MATH_H

double det_log(double x);                                /* x > 0, normal */
double det_exp(double x);                                /* |x| < 700 */
double det_pow(double base, double exponent);            /* base > 0, |exponent * log(base)| < 700 */
void det_sincos(double x, double *sine, double *cosine); /* |x| < 1.6e6 */

#endif
