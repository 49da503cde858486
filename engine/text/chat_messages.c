#include "engine/text/chat_messages.h"

static const char reasoning_content[] = "reasoning_content", thinking[] = "thinking";

/* The names under which reasoning comes, the standard one first. */
static const char *const reasoning_names[] = {reasoning_content, thinking, "reasoning"};

static int copy_members(struct jinja_run *r, const struct jinja_dict *from, struct jinja_dict *to)
{
	for (size_t i = 0; i < from->count; i++)
		if (from->pairs[i].value.type != JINJA_NONE)
			TRY(jinja_dict_set(r, to, from->pairs[i].key, from->pairs[i].value));
	return 0;
}

static int read_message(struct jinja_run *r, const struct json *json, struct jinja_value *out)
{
	struct jinja_value raw;
	struct jinja_pair *reasoning = NULL;
	TRY(jinja_from_json(r, json, &raw));
	for (int i = 0; i < 3 && (!reasoning || reasoning->value.type == JINJA_NONE); i++)
		TRY(jinja_dict_find_text(r, raw.dict, str_of(reasoning_names[i]), &reasoning));
	bool thought = reasoning && reasoning->value.type != JINJA_NONE;
	TRY(jinja_dict_new(r, JINJA_DICT, raw.dict->count + 2, out));
	if (thought)
		TRY(jinja_dict_set(r, out->dict, jinja_text(str_of(thinking)), reasoning->value));
	TRY(copy_members(r, raw.dict, out->dict));
	if (!thought)
		return 0;
	return jinja_dict_set(r, out->dict, jinja_text(str_of(reasoning_content)), reasoning->value);
}

int chat_messages_read(struct jinja_run *r, const struct json *messages, struct jinja_value *out)
{
	size_t i = 0;
	if (!json_is(messages, JSON_ARRAY) || messages->count == 0)
		return jinja_fail(r, "\"messages\" is %s, expected a list of at least one message",
			json_is(messages, JSON_ARRAY) ? "empty" : json_type_name(messages));
	TRY(jinja_list_new(r, JINJA_LIST, messages->count, out));
	JSON_EACH (message, messages) {
		struct jinja_value v;
		if (!json_is(message, JSON_OBJECT))
			return jinja_fail(r, "messages[%zu] is %s, expected an object", i, json_type_name(message));
		TRY(read_message(r, message, &v));
		TRY(jinja_list_add(r, out->list, v));
		i++;
	}
	return 0;
}
