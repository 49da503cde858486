/* Constants that the scalar and the vector exp share (Cephes expf: minimax polynomial on |r| <= ln 2 / 2), and the chunk of
 * the softmax over a row of logits. One place, so that twins cannot drift apart. */
#ifndef ASSAY_ENGINE_BASE_EXP_CONSTANTS_H
#define ASSAY_ENGINE_BASE_EXP_CONSTANTS_H

#define EXP_LOWEST (-87.3f) /* below: 0; smaller results would be subnormal */
#define EXP_HIGHEST 88.72f  /* above: infinity */
#define EXP_LOG2E 0x1.715476p+0f
#define EXP_LN2_HIGH 0x1.63p-1f
#define EXP_LN2_LOW (-0x1.bd0106p-13f)
#define EXP_C0 1.9875691500e-4f
#define EXP_C1 1.3981999507e-3f
#define EXP_C2 8.3334519073e-3f
#define EXP_C3 4.1665795894e-2f
#define EXP_C4 1.6666665459e-1f
#define EXP_C5 5.0000001201e-1f

enum { SOFTMAX_CHUNK = 512 }; /* a multiple of 8 */

#endif
