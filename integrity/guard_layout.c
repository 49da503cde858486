/* Scales, formats and memory of the layers, against what they were when the pool was made and its scales were set. */
#include <math.h>

#include "integrity/guard_state.h"

void guard_scales_set(void *state, int layer, float k_scale, float v_scale)
{
	struct guard_state *s = state;

	if (state_level(s) < GUARD_PAGES)
		return;
	check_ran(s, GUARD_LAYOUT);
	for (int l = layer; l < layers_count(s); l += s->layout.n_layers) {
		s->layers[l].k_scale = k_scale;
		s->layers[l].v_scale = v_scale;
	}
	if (k_scale > 0.0f && isfinite(k_scale) && v_scale > 0.0f && isfinite(v_scale))
		return;
	s->layout_broken = true;
	guard_fire(s, NULL,
		&(struct finding){
			GUARD_LAYOUT, GUARD_AT_ADMISSION, -1, layer, 0, 0, "a scale is not a positive number"});
}

static bool layer_same(const struct kv_layer *a, const struct kv_layer *b)
{
	return a->format == b->format && a->k == b->k && a->v == b->v && a->k_scale == b->k_scale &&
		a->v_scale == b->v_scale;
}

bool layout_holds(struct guard_state *s, enum guard_moment moment)
{
	const struct kv_pool *pool = s->layout.pool;
	const struct kv_geometry *a = &s->geometry, *b = &pool->geometry;
	int layer = 0, n = layers_count(s);

	check_ran(s, GUARD_LAYOUT);
	if (s->layout_broken)
		return false;
	while (layer < n && layer_same(&s->layers[layer], &pool->layers[layer]))
		layer++;
	if (layer == n && a->page_size == b->page_size && a->n_pages == b->n_pages && a->n_kv_heads == b->n_kv_heads &&
		a->head_dim == b->head_dim)
		return true;
	s->layout_broken = true;
	guard_fire(s, NULL,
		&(struct finding){GUARD_LAYOUT, moment, -1, layer < n ? layer % s->layout.n_layers : -1, 0, 0,
			"scales, format or memory of a layer changed"});
	return false;
}
