/* Mixture of experts: the router's choice and the experts' feed-forward product (MODELS sections 3 and 5, NUMERICS
 * section 3 rule 4). */
#ifndef ASSAY_ENGINE_CPU_OPS_MOE_H
#define ASSAY_ENGINE_CPU_OPS_MOE_H

#include "engine/cpu/product.h"

/* Chooses n_chosen experts per token. Softmax: by logit; sigmoid: by sigmoid + bias, within the topk_group groups
 * whose two best sum highest. Ties go to the lowest index; NaN counts as the largest, so that it reaches the output.
 * Choice and weights of a token depend on its row alone. PRECOND: n_chosen <= n_experts / n_group * topk_group;
 * groups only with sigmoid. */
void route_cpu(const struct route_args *a);

/* Floats of scratch for experts_cpu with arguments of at most these sizes (pointers are not looked at). */
size_t experts_scratch_floats(const struct experts_args *a);

/* Each expert runs over its tokens together; a token's sum goes over ascending experts, whatever the others choose.
 * scratch: 64-byte aligned. y may be the residual. PRECOND: expert indices are in range. */
void experts_cpu(const struct experts_args *a, const struct product_kernels *kernels, float *scratch);

#endif
