/* Values as text: Python's str, repr and json.dumps, and JSON read into values. */
#include <math.h>
#include <stdlib.h>

#include <utf8proc.h>

#include "engine/base/decimal.h"
#include "engine/base/utf8.h"
#include "engine/text/jinja_eval.h"
#include "engine/text/jinja_value.h"

/* ---- repr ---- */

static bool is_printable(int32_t c)
{
	if (c == ' ')
		return true;
	switch (utf8proc_category(c)) {
	case UTF8PROC_CATEGORY_CC:
	case UTF8PROC_CATEGORY_CF:
	case UTF8PROC_CATEGORY_CS:
	case UTF8PROC_CATEGORY_CO:
	case UTF8PROC_CATEGORY_CN:
	case UTF8PROC_CATEGORY_ZL:
	case UTF8PROC_CATEGORY_ZP:
	case UTF8PROC_CATEGORY_ZS:
		return false;
	default:
		return true;
	}
}

static void repr_character(int32_t c, char quote, struct buf *out)
{
	static const char letters[] = {['\t'] = 't', ['\n'] = 'n', ['\r'] = 'r'};
	if (c == quote || c == '\\')
		buf_printf(out, "\\%c", (char)c);
	else if (c < (int32_t)sizeof letters && letters[c])
		buf_printf(out, "\\%c", letters[c]);
	else if (is_printable(c))
		utf8_append(out, c);
	else if (c < 0x100)
		buf_printf(out, "\\x%02x", (unsigned)c);
	else
		buf_printf(out, c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
}

static int repr_text(struct jinja_run *r, struct str s, struct buf *out)
{
	bool single = memchr(s.length ? s.data : "", '\'', s.length) != NULL;
	bool twofold = memchr(s.length ? s.data : "", '"', s.length) != NULL;
	char quote = single && !twofold ? '"' : '\'';
	TRY(jinja_work_text(r, s.length));
	buf_append_char(out, quote);
	for (size_t position = 0; position < s.length;) {
		int32_t c = utf8_next(s, &position);
		repr_character(c < 0 ? 0xfffd : c, quote, out);
	}
	buf_append_char(out, quote);
	return jinja_append_text(r, out, "");
}

static void print_real(double d, struct buf *out)
{
	if (isfinite(d))
		decimal_write_double(d, out);
	else
		buf_append_text(out, isnan(d) ? "nan" : d > 0 ? "inf" : "-inf");
}

static int repr_items(
	struct jinja_run *r, const struct jinja_list *list, const char *open, const char *close, struct buf *out)
{
	TRY(jinja_append_text(r, out, open));
	for (size_t i = 0; i < list->count; i++) {
		TRY(jinja_append_text(r, out, i ? ", " : ""));
		TRY(jinja_repr(r, &list->items[i], out));
	}
	return jinja_append_text(r, out, close);
}

static int repr_dict(struct jinja_run *r, const struct jinja_dict *dict, struct buf *out)
{
	TRY(jinja_append_text(r, out, "{"));
	for (size_t i = 0; i < dict->count; i++) {
		TRY(jinja_append_text(r, out, i ? ", " : ""));
		TRY(jinja_repr(r, &dict->pairs[i].key, out));
		TRY(jinja_append_text(r, out, ": "));
		TRY(jinja_repr(r, &dict->pairs[i].value, out));
	}
	return jinja_append_text(r, out, "}");
}

static int repr_view(struct jinja_run *r, const struct jinja_value *v, struct buf *out)
{
	struct jinja_list items;
	TRY(jinja_iterate(r, v, &items));
	TRY(jinja_append_text(r, out, jinja_type_name(v)));
	return repr_items(r, &items, "([", "])", out);
}

static int repr_container(struct jinja_run *r, const struct jinja_value *v, struct buf *out)
{
	switch (v->type) {
	case JINJA_LIST:
		return repr_items(r, v->list, "[", "]", out);
	case JINJA_TUPLE:
		return repr_items(r, v->list, "(", v->list->count == 1 ? ",)" : ")", out);
	case JINJA_DICT:
		return repr_dict(r, v->dict, out);
	case JINJA_NAMESPACE:
		TRY(jinja_append_text(r, out, "<Namespace "));
		TRY(repr_dict(r, v->dict, out));
		return jinja_append_text(r, out, ">");
	case JINJA_VIEW:
		return repr_view(r, v, out);
	default:
		return jinja_fail(r, "a %s has no text of its own", jinja_type_name(v));
	}
}

static void repr_range(const struct jinja_range *range, struct buf *out)
{
	buf_printf(out, "range(%lld, %lld", (long long)range->start, (long long)range->stop);
	if (range->step != 1)
		buf_printf(out, ", %lld", (long long)range->step);
	buf_append_char(out, ')');
}

int jinja_repr(struct jinja_run *r, const struct jinja_value *v, struct buf *out)
{
	int status;
	TRY(jinja_work(r, 1));
	switch (v->type) {
	case JINJA_UNDEFINED:
		return jinja_append_text(r, out, "Undefined");
	case JINJA_NONE:
		return jinja_append_text(r, out, "None");
	case JINJA_BOOL:
		return jinja_append_text(r, out, v->boolean ? "True" : "False");
	case JINJA_INT:
		buf_printf(out, "%lld", (long long)v->integer);
		return 0;
	case JINJA_BIG:
		return jinja_append(r, out, v->text);
	case JINJA_REAL:
		print_real(v->real, out);
		return 0;
	case JINJA_TEXT:
		TRY(jinja_append_text(r, out, v->safe ? "Markup(" : ""));
		TRY(repr_text(r, v->text, out));
		return jinja_append_text(r, out, v->safe ? ")" : "");
	case JINJA_RANGE:
		repr_range(v->range, out);
		return 0;
	case JINJA_MACRO:
		TRY(jinja_append_text(r, out, "<Macro "));
		TRY(repr_text(r, jinja_macro_name(v->macro), out));
		return jinja_append_text(r, out, ">");
	default:
		TRY(jinja_nest(r));
		status = repr_container(r, v, out);
		r->depth--;
		return status;
	}
}

int jinja_print(struct jinja_run *r, const struct jinja_value *v, struct buf *out)
{
	if (v->type == JINJA_TEXT)
		return jinja_append(r, out, v->text);
	return v->type == JINJA_UNDEFINED ? 0 : jinja_repr(r, v, out);
}

int jinja_string(struct jinja_run *r, const struct jinja_value *v, struct str *out)
{
	struct jinja_value kept;
	*out = v->text;
	if (v->type == JINJA_TEXT)
		return 0;
	struct buf text = {0};
	int status = jinja_print(r, v, &text);
	TRY(jinja_buf_keep(r, status, &text, &kept));
	*out = kept.text;
	return 0;
}

int jinja_escape(struct jinja_run *r, struct str s, struct buf *out)
{
	static const char special[] = "&<>\"'";
	static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
	size_t run = 0;
	for (size_t i = 0; i < s.length; i++) {
		const char *found = s.data[i] ? strchr(special, s.data[i]) : NULL;
		if (!found)
			continue;
		TRY(jinja_append(r, out, (struct str){s.data + run, i - run}));
		TRY(jinja_append_text(r, out, entities[found - special]));
		run = i + 1;
	}
	return s.length > run ? jinja_append(r, out, (struct str){s.data + run, s.length - run}) : 0;
}

/* ---- json.dumps ---- */

struct dump {
	struct jinja_run *r;
	const struct jinja_json_style *style;
	struct buf *out;
	int level;
};

static int dump_value(struct dump *d, const struct jinja_value *v);

static int dump_break(struct dump *d)
{
	if (!d->style->has_indent)
		return 0;
	TRY(jinja_append_text(d->r, d->out, "\n"));
	for (int i = 0; i < d->level; i++)
		TRY(jinja_append(d->r, d->out, d->style->indent));
	return 0;
}

static int dump_text(struct dump *d, struct str s)
{
	TRY(jinja_work_text(d->r, s.length));
	json_write_string(s, d->style->ensure_ascii, d->out);
	return jinja_append_text(d->r, d->out, "");
}

static int dump_list(struct dump *d, const struct jinja_list *list)
{
	TRY(jinja_append_text(d->r, d->out, "["));
	d->level++;
	for (size_t i = 0; i < list->count; i++) {
		TRY(i ? jinja_append(d->r, d->out, d->style->item_separator) : 0);
		TRY(dump_break(d));
		TRY(dump_value(d, &list->items[i]));
	}
	d->level--;
	TRY(list->count ? dump_break(d) : 0);
	return jinja_append_text(d->r, d->out, "]");
}

/* A key that is no text becomes what JSON would write for it. */
static int dump_key(struct dump *d, const struct jinja_value *key)
{
	if (key->type == JINJA_TEXT)
		return dump_text(d, key->text);
	if (key->type != JINJA_NONE && !jinja_is_number(key))
		return jinja_fail(d->r, "keys must be str, int, float, bool or None, not %s", jinja_type_name(key));
	TRY(jinja_append_text(d->r, d->out, "\""));
	TRY(dump_value(d, key));
	return jinja_append_text(d->r, d->out, "\"");
}

struct key_order {
	struct jinja_run *r;
	int status;
};

static int compare_keys(const void *a, const void *b, void *context)
{
	const struct jinja_pair *left = a, *right = b;
	struct key_order *o = context;
	int order = 0;
	if (o->status == 0)
		o->status = jinja_compare(o->r, &left->key, &right->key, "<", &order);
	return order;
}

static int sorted_pairs(struct jinja_run *r, const struct jinja_dict *dict, struct jinja_pair **out)
{
	struct key_order order = {r, 0};
	*out = jinja_alloc(r, (dict->count + 1) * sizeof **out);
	if (!*out)
		return ERR_INPUT;
	if (dict->count)
		memcpy(*out, dict->pairs, dict->count * sizeof **out);
	qsort_r(*out, dict->count, sizeof **out, compare_keys, &order);
	return order.status;
}

static int dump_dict(struct dump *d, const struct jinja_dict *dict)
{
	struct jinja_pair *pairs = dict->pairs;
	if (d->style->sort_keys)
		TRY(sorted_pairs(d->r, dict, &pairs));
	TRY(jinja_append_text(d->r, d->out, "{"));
	d->level++;
	for (size_t i = 0; i < dict->count; i++) {
		TRY(i ? jinja_append(d->r, d->out, d->style->item_separator) : 0);
		TRY(dump_break(d));
		TRY(dump_key(d, &pairs[i].key));
		TRY(jinja_append(d->r, d->out, d->style->key_separator));
		TRY(dump_value(d, &pairs[i].value));
	}
	d->level--;
	TRY(dict->count ? dump_break(d) : 0);
	return jinja_append_text(d->r, d->out, "}");
}

static int dump_container(struct dump *d, const struct jinja_value *v)
{
	TRY(jinja_nest(d->r));
	int status = v->type == JINJA_DICT ? dump_dict(d, v->dict) : dump_list(d, v->list);
	d->r->depth--;
	return status;
}

static int dump_value(struct dump *d, const struct jinja_value *v)
{
	TRY(jinja_work(d->r, 1));
	switch (v->type) {
	case JINJA_NONE:
		return jinja_append_text(d->r, d->out, "null");
	case JINJA_BOOL:
		return jinja_append_text(d->r, d->out, v->boolean ? "true" : "false");
	case JINJA_INT:
	case JINJA_BIG:
		return jinja_repr(d->r, v, d->out);
	case JINJA_REAL:
		json_write_double(v->real, d->out);
		return 0;
	case JINJA_TEXT:
		return dump_text(d, v->text);
	case JINJA_LIST:
	case JINJA_TUPLE:
	case JINJA_DICT:
		return dump_container(d, v);
	default:
		return jinja_fail(d->r, "Object of type %s is not JSON serializable", jinja_type_name(v));
	}
}

int jinja_to_json(
	struct jinja_run *r, const struct jinja_value *v, const struct jinja_json_style *style, struct buf *out)
{
	struct dump d = {r, style, out, 0};
	return dump_value(&d, v);
}

/* ---- JSON to values ---- */

static int number_from_json(struct jinja_run *r, const struct json *json, struct jinja_value *out)
{
	int64_t integer;
	if (json_int64(json, &integer)) {
		*out = jinja_int(integer);
		return 0;
	}
	for (size_t i = 0; i < json->text.length; i++) {
		if (strchr(".eE", json->text.data[i])) {
			*out = jinja_real(json_double(json));
			return 0;
		}
	}
	TRY(jinja_text_keep(r, json->text, out));
	out->type = JINJA_BIG;
	return 0;
}

static int list_from_json(struct jinja_run *r, const struct json *json, struct jinja_value *out)
{
	TRY(jinja_list_new(r, JINJA_LIST, json->count, out));
	JSON_EACH (item, json) {
		TRY(jinja_from_json(r, item, &out->list->items[out->list->count]));
		out->list->count++;
	}
	return 0;
}

/* Of doubled keys the last value counts, at the place of the first, as in a dict. */
static int dict_from_json(struct jinja_run *r, const struct json *json, struct jinja_value *out)
{
	bool doubled = false;
	TRY(jinja_dict_new(r, JINJA_DICT, json->count, out));
	JSON_EACH (member, json) {
		struct jinja_value value;
		doubled |= member->shadowed;
		TRY(jinja_from_json(r, member, &value));
		if (doubled)
			TRY(jinja_dict_set(r, out->dict, jinja_text(member->key), value));
		else
			out->dict->pairs[out->dict->count++] = (struct jinja_pair){jinja_text(member->key), value};
	}
	return 0;
}

int jinja_from_json(struct jinja_run *r, const struct json *json, struct jinja_value *out)
{
	TRY(jinja_work(r, 1));
	switch (json->type) {
	case JSON_NULL:
		*out = jinja_none();
		return 0;
	case JSON_FALSE:
	case JSON_TRUE:
		*out = jinja_bool(json->type == JSON_TRUE);
		return 0;
	case JSON_NUMBER:
		return number_from_json(r, json, out);
	case JSON_STRING:
		*out = jinja_text(json->text);
		return 0;
	case JSON_ARRAY:
		return list_from_json(r, json, out);
	case JSON_OBJECT:
		break;
	}
	return dict_from_json(r, json, out);
}
