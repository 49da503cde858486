/* A rank's share of a matrix: whole rows, or for every row the same columns. What was found over whole rows (scales)
 * comes along, so a share's values are those of the whole. */
#ifndef ASSAY_ENGINE_MODEL_WEIGHT_SHARE_H
#define ASSAY_ENGINE_MODEL_WEIGHT_SHARE_H

#include "engine/backend.h"

struct weight_share {
	struct host_matrix m; /* of a group of one: the whole, borrowed */
	/* owned */
	char *data;
	float *scales;
	uint16_t *group_scales;
};

size_t host_value_size(enum weight_format format); /* bytes of a value in host_matrix.data */

/* The whole is `count` matrices of rows[i] rows, one below the other: of each a rank has ceil(rows[i] / n_ranks) in
 * turn, the last ranks' filled up with zero rows. To be freed on failure too. */
int weight_share_rows(struct weight_share *s, const struct host_matrix *whole, const int *rows, int count, int rank,
	int n_ranks, struct error *e);

/* PRECOND: n_ranks divides the columns, at multiples of the group. */
int weight_share_columns(
	struct weight_share *s, const struct host_matrix *whole, int rank, int n_ranks, struct error *e);

void weight_share_free(struct weight_share *s);

#endif
