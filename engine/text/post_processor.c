#include "engine/text/post_processor.h"

#include "engine/text/field.h"
#include "engine/text/vocab.h"

static const char known_types[] = "Sequence, ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing";

/* "cls": [text, id] of BertProcessing and RobertaProcessing. */
static int read_marker(const struct json *spec, const char *key, struct token_ids *ids, struct error *e)
{
	const struct json *pair = json_get(spec, key);
	const struct json *id = json_at(pair, 1);
	int64_t value;
	if (!json_is(pair, JSON_ARRAY) || pair->count != 2 || !json_is(id, JSON_NUMBER) || !json_int64(id, &value) ||
		value < 0 || value >= VOCAB_ID_END)
		return error_set(
			e, ERR_INPUT, "post_processor: \"%s\" is %s, expected [token, id]", key, json_type_name(pair));
	return token_ids_push(ids, (int32_t)value, e);
}

/* The ids of a special token that a template names. */
static int read_special(const struct json *spec, struct str name, struct token_ids *ids, struct error *e)
{
	static const char where[] = "post_processor TemplateProcessing";
	const struct json *special = json_get_str(json_get(spec, "special_tokens"), name);
	if (!special)
		return error_set(e, ERR_INPUT, "%s: \"%.*s\" is not among its special_tokens", where, STR_ARG(name));
	const struct json *list;
	TRY(field_array(special, "ids", where, &list, e));
	JSON_EACH (id, list) {
		int64_t value;
		if (!json_is(id, JSON_NUMBER) || !json_int64(id, &value) || value < 0 || value >= VOCAB_ID_END)
			return error_set(e, ERR_INPUT,
				"%s: the ids of \"%.*s\" hold %.*s, expected integers from 0 to %d", where,
				STR_ARG(name), STR_ARG(id->text), VOCAB_ID_END - 1);
		TRY(token_ids_push(ids, (int32_t)value, e));
	}
	return 0;
}

static int read_template(struct post_processor *p, const struct json *spec, struct error *e)
{
	static const char where[] = "post_processor TemplateProcessing";
	const struct json *pieces;
	bool seen = false; /* the text itself */
	TRY(field_array(spec, "single", where, &pieces, e));
	JSON_EACH (piece, pieces) {
		const struct json *sequence = json_get(piece, "Sequence"), *special = json_get(piece, "SpecialToken");
		struct str id;
		if (!sequence == !special)
			return error_set(e, ERR_INPUT,
				"%s: \"single\" holds %s, expected {\"Sequence\": ...} or {\"SpecialToken\": ...}",
				where, json_type_name(piece));
		TRY(field_text(sequence ? sequence : special, "id", where, &id, e));
		if (special) {
			TRY(read_special(spec, id, seen ? &p->behind : &p->before, e));
			continue;
		}
		if (!str_is(id, "A") || seen)
			return error_set(e, ERR_INPUT, "%s: \"single\" has sequence \"%.*s\"%s, expected A once", where,
				STR_ARG(id), seen ? " after A" : "");
		seen = true;
	}
	return seen ? 0 : error_set(e, ERR_INPUT, "%s: \"single\" has no sequence A", where);
}

/* *adds: a part that may add ids was there already. The reference runs several only where one adds. */
static int read_spec(struct post_processor *p, const struct json *spec, bool *adds, struct error *e)
{
	const struct json *type = json_get(spec, "type");
	if (!json_is(type, JSON_STRING))
		return field_refuse_type(spec, "post_processor", known_types, e);
	if (str_is(type->text, "ByteLevel")) /* moves offsets only */
		return 0;
	if (str_is(type->text, "Sequence")) {
		const struct json *parts;
		TRY(field_array(spec, "processors", "post_processor Sequence", &parts, e));
		JSON_EACH (part, parts)
			TRY(read_spec(p, part, adds, e));
		return 0;
	}
	bool is_template = str_is(type->text, "TemplateProcessing");
	if (!is_template && !str_is(type->text, "BertProcessing") && !str_is(type->text, "RobertaProcessing"))
		return field_refuse_type(spec, "post_processor", known_types, e);
	if (*adds)
		return error_set(
			e, ERR_INPUT, "post_processor Sequence: more than one part that adds tokens is not supported");
	*adds = true;
	if (is_template)
		return read_template(p, spec, e);
	TRY(read_marker(spec, "cls", &p->before, e));
	return read_marker(spec, "sep", &p->behind, e);
}

int post_processor_init(struct post_processor *p, const struct json *spec, struct error *e)
{
	bool adds = false;
	return !spec || json_is(spec, JSON_NULL) ? 0 : read_spec(p, spec, &adds, e);
}

void post_processor_free(struct post_processor *p)
{
	token_ids_free(&p->before);
	token_ids_free(&p->behind);
}
