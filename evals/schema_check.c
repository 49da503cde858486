/* Judging an instance by a compiled JSON Schema. */
#include <math.h>
#include <stdlib.h>

#include "datasets/records.h"
#include "engine/base/file.h"
#include "engine/base/json_number.h"
#include "engine/base/utf8.h"
#include "evals/schema_memo.h"
#include "evals/schema_unique.h"

/* WORK counts bytes and members looked at, the steps of patterns, and what is kept in memory: a finding costs FINDING_WORK. */
enum { WORK_LIMIT = 50000000, FINDING_WORK = 100, DEPTH_LIMIT = 2048 };

/* Where in the instance: the last step of a path to its root. */
struct step {
	const struct step *up;
	const struct json *value; /* a member has a key; an element has an index */
	size_t index;
	bool is_member;
};

struct check {
	uint64_t work;
	int depth;
	int trials; /* above 0 a failure is no verdict: nothing is said of it */
	struct schema_memo memo;
	struct buf *why;
	struct error *e;
};

/* One schema on one instance. seen: flags [value->count] of the members that were evaluated, in the order of the
 * instance, or NULL where nobody asks. */
struct frame {
	struct check *c;
	const struct schema_node *node;
	const struct json *value;
	const struct step *at;
	bool *seen;
};

static int node_check(
	struct check *c, const struct schema_node *node, const struct json *value, const struct step *at, bool *seen);

/* ---- What is said ---- */

static void append_path(const struct step *at, struct buf *out)
{
	if (!at->up)
		return;
	append_path(at->up, out);
	if (at->is_member)
		buf_printf(out, "/%.*s", STR_ARG(at->value->key));
	else
		buf_printf(out, "/%zu", at->index);
}

/* Says once why the instance is invalid. Returns 0, for "not valid". */
static int invalid(const struct frame *f, const char *keyword, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static int invalid(const struct frame *f, const char *keyword, const char *format, ...)
{
	struct buf *why = f->c->why;
	if (!why || f->c->trials > 0 || why->length > 0)
		return 0;
	char text[256];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	append_path(f->at, why);
	buf_printf(why, "%s%s: %s", f->at->up ? ": " : "", keyword, text);
	return 0;
}

static int spend(struct check *c, uint64_t cost)
{
	if (c->work <= cost)
		return error_set(c->e, ERR_LIMIT, "judging the value by its schema takes more work than is bounded");
	c->work -= cost;
	return 1;
}

/* ---- Going down ---- */

static int child_check(const struct frame *f, const struct schema_node *node, const struct json *child, size_t index)
{
	const struct step at = {f->at, child, index, f->value->type == JSON_OBJECT};
	return node_check(f->c, node, child, &at, NULL);
}

/* The same instance by another schema, whose word is final. */
static int same_check(const struct frame *f, const struct schema_node *node)
{
	return node_check(f->c, node, f->value, f->at, f->seen);
}

/* The same instance by a schema that may fail. */
static int trial_check(const struct frame *f, const struct schema_node *node)
{
	f->c->trials++;
	int result = same_check(f, node);
	f->c->trials--;
	return result;
}

/* ---- Any value ---- */

static bool has_type(const struct json *value, struct str type)
{
	if (str_is(type, "integer"))
		return json_is_integral(value);
	return str_is(type, json_type_name(value));
}

static int check_type(const struct frame *f, const struct schema_use *use)
{
	const uint64_t digits = f->value->type == JSON_NUMBER ? f->value->text.length : 0;
	TRY(spend(f->c, (use->value->count + 1) * (digits + 1)));
	if (use->value->type == JSON_STRING) {
		if (has_type(f->value, use->value->text))
			return 1;
		return invalid(f, "type", "%s is not %.*s", json_type_name(f->value), STR_ARG(use->value->text));
	}
	JSON_EACH (type, use->value) {
		if (has_type(f->value, type->text))
			return 1;
	}
	return invalid(f, "type", "%s is none of the types", json_type_name(f->value));
}

static int equals(const struct frame *f, const struct json *a, const struct json *b)
{
	bool equal = json_equal(a, b, JSON_EQUAL_SCHEMA, &f->c->work);
	return f->c->work == 0 ? spend(f->c, 1) : equal;
}

static int check_enum(const struct frame *f, const struct schema_use *use)
{
	JSON_EACH (item, use->value) {
		int equal = equals(f, item, f->value);
		if (equal != 0)
			return equal;
	}
	return invalid(f, "enum", "none of the %zu values", use->value->count);
}

static int check_const(const struct frame *f, const struct schema_use *use)
{
	int equal = equals(f, use->value, f->value);
	return equal != 0 ? equal : invalid(f, "const", "another value");
}

/* ---- Numbers ---- */

static int check_number(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_NUMBER)
		return 1;
	TRY(spend(f->c, f->value->text.length + use->value->text.length));
	bool holds;
	if (use->keyword == SCHEMA_MULTIPLE_OF) {
		TRY(spend(f->c, 2 * (uint64_t)f->value->text.length * use->value->text.length));
		holds = json_is_multiple(f->value, use->value);
	} else {
		enum json_order order = json_number_compare(f->value, use->value);
		holds = use->keyword == SCHEMA_MINIMUM             ? order == JSON_SAME || order == JSON_GREATER
			: use->keyword == SCHEMA_MAXIMUM           ? order == JSON_SAME || order == JSON_LESS
			: use->keyword == SCHEMA_EXCLUSIVE_MINIMUM ? order == JSON_GREATER
								   : order == JSON_LESS;
	}
	return holds ? 1
		     : invalid(f, use->name, "%.*s against %.*s", STR_ARG(f->value->text), STR_ARG(use->value->text));
}

/* ---- Sizes ---- */

/* What a bound of sizes counts, or false where it does not apply. */
static bool size_of(const struct frame *f, enum schema_keyword keyword, size_t *size)
{
	switch (keyword) {
	case SCHEMA_MIN_LENGTH:
	case SCHEMA_MAX_LENGTH:
		if (f->value->type != JSON_STRING)
			return false;
		*size = utf8_count(f->value->text);
		return true;
	case SCHEMA_MIN_ITEMS:
	case SCHEMA_MAX_ITEMS:
		*size = f->value->count;
		return f->value->type == JSON_ARRAY;
	default:
		*size = 0;
		JSON_EACH (member, f->value)
			*size += !member->shadowed;
		return f->value->type == JSON_OBJECT;
	}
}

static int check_size(const struct frame *f, const struct schema_use *use)
{
	size_t size;
	TRY(spend(f->c, f->value->text.length + f->value->count));
	if (!size_of(f, use->keyword, &size))
		return 1;
	bool is_least = use->keyword == SCHEMA_MIN_LENGTH || use->keyword == SCHEMA_MIN_ITEMS ||
		use->keyword == SCHEMA_MIN_PROPERTIES;
	double bound = json_double(use->value);
	bool holds = is_least ? (double)size >= bound : (double)size <= bound;
	return holds ? 1 : invalid(f, use->name, "%zu against %.*s", size, STR_ARG(use->value->text));
}

static int check_pattern(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_STRING)
		return 1;
	TRY(spend(f->c, f->value->text.length));
	int found = ecma_pattern_found(use->patterns[0], f->value->text, &f->c->work, f->c->e);
	return found != 0 ? found : invalid(f, "pattern", "\"%.*s\" is not found", STR_ARG(use->value->text));
}

/* ---- Arrays ---- */

static int check_unique(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_ARRAY || use->value->type == JSON_FALSE)
		return 1;
	int equal = schema_any_equal(f->value, &f->c->work, f->c->e);
	if (f->c->work == 0)
		return spend(f->c, 1);
	return equal < 0 ? equal : equal == 0 ? 1 : invalid(f, "uniqueItems", "two items are equal");
}

static int check_prefix(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_ARRAY)
		return 1;
	size_t i = 0;
	JSON_EACH (item, f->value) {
		if (i == use->count)
			break;
		int result = child_check(f, use->nodes[i], item, i);
		if (result != 1)
			return result;
		i++;
	}
	return 1;
}

static int check_items(const struct frame *f, const struct schema_use *use)
{
	const struct schema_use *prefix = schema_use_of(f->node, SCHEMA_PREFIX_ITEMS);
	if (f->value->type != JSON_ARRAY)
		return 1;
	size_t i = 0, first = prefix ? prefix->count : 0;
	JSON_EACH (item, f->value) {
		int result = i < first ? 1 : child_check(f, use->nodes[0], item, i);
		if (result != 1)
			return result;
		i++;
	}
	return 1;
}

static int check_contains(const struct frame *f, const struct schema_use *use)
{
	const struct schema_use *least = schema_use_of(f->node, SCHEMA_MIN_CONTAINS);
	const struct schema_use *most = schema_use_of(f->node, SCHEMA_MAX_CONTAINS);
	if (f->value->type != JSON_ARRAY)
		return 1;
	size_t i = 0, matches = 0;
	JSON_EACH (item, f->value) {
		f->c->trials++;
		int result = child_check(f, use->nodes[0], item, i++);
		f->c->trials--;
		TRY(result);
		matches += (size_t)result;
	}
	if ((double)matches < (least ? json_double(least->value) : 1.0))
		return invalid(f, least ? "minContains" : "contains", "%zu items match", matches);
	if (most && (double)matches > json_double(most->value))
		return invalid(f, "maxContains", "%zu items match", matches);
	return 1;
}

/* ---- Objects ---- */

/* The members of the instance by their keys, for that many look-ups. */
static int keys_of(const struct frame *f, size_t look_ups, struct schema_keys *out)
{
	TRY(spend(f->c, schema_keys_work(f->value->count, look_ups)));
	return schema_keys_init(out, f->value, look_ups, f->c->e);
}

static int check_required(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_OBJECT)
		return 1;
	struct schema_keys keys;
	struct schema_key key;
	const struct json *missing = NULL;
	TRY(keys_of(f, use->value->count, &keys));
	JSON_EACH (name, use->value) {
		missing = schema_keys_find(&keys, name->text, &key) ? NULL : name;
		if (missing)
			break;
	}
	schema_keys_free(&keys);
	return missing ? invalid(f, "required", "\"%.*s\" is missing", STR_ARG(missing->text)) : 1;
}

static int check_dependent_required(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_OBJECT)
		return 1;
	JSON_EACH (names, use->value) {
		TRY(spend(f->c, (uint64_t)(names->count + 1) * f->value->count));
		if (names->shadowed || !json_get_str(f->value, names->key))
			continue;
		JSON_EACH (name, names) {
			if (!json_get_str(f->value, name->text))
				return invalid(f, "dependentRequired", "\"%.*s\" needs \"%.*s\"", STR_ARG(names->key),
					STR_ARG(name->text));
		}
	}
	return 1;
}

static int properties_check(const struct frame *f, const struct schema_use *use, const struct schema_keys *keys)
{
	size_t i = 0;
	JSON_EACH (property, use->value) {
		const struct schema_node *node = use->nodes[i++];
		struct schema_key key;
		if (!node || !schema_keys_find(keys, property->key, &key))
			continue;
		int result = child_check(f, node, key.member, key.index);
		if (result != 1)
			return result;
		if (f->seen)
			f->seen[key.index] = true;
	}
	return 1;
}

static int check_properties(const struct frame *f, const struct schema_use *use)
{
	struct schema_keys keys;
	if (f->value->type != JSON_OBJECT)
		return 1;
	TRY(keys_of(f, use->value->count, &keys));
	int result = properties_check(f, use, &keys);
	schema_keys_free(&keys);
	return result;
}

/* 1 when a key matches pattern i. */
static int key_matches(const struct frame *f, const struct schema_use *use, size_t i, struct str key)
{
	TRY(spend(f->c, key.length + 1));
	return use->patterns[i] ? ecma_pattern_found(use->patterns[i], key, &f->c->work, f->c->e) : 0;
}

static int check_pattern_properties(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_OBJECT)
		return 1;
	size_t index = 0;
	JSON_EACH (member, f->value) {
		for (size_t i = 0; !member->shadowed && i < use->count; i++) {
			int result = key_matches(f, use, i, member->key);
			TRY(result);
			if (result == 0)
				continue;
			result = child_check(f, use->nodes[i], member, index);
			if (result != 1)
				return result;
			if (f->seen)
				f->seen[index] = true;
		}
		index++;
	}
	return 1;
}

/* 1 when properties or patternProperties of the same schema name the key. */
static int is_named(const struct frame *f, struct str key)
{
	const struct schema_use *properties = schema_use_of(f->node, SCHEMA_PROPERTIES);
	const struct schema_use *patterns = schema_use_of(f->node, SCHEMA_PATTERN_PROPERTIES);
	struct schema_key found;
	TRY(spend(f->c, properties ? schema_keys_find_work(&properties->keys) : 1));
	if (properties && schema_keys_find(&properties->keys, key, &found))
		return 1;
	for (size_t i = 0; patterns && i < patterns->count; i++) {
		int result = key_matches(f, patterns, i, key);
		if (result != 0)
			return result;
	}
	return 0;
}

/* Members left over by others, by the one schema of additionalProperties or unevaluatedProperties. */
static int rest_check(const struct frame *f, const struct schema_use *use, const struct json *member, size_t index)
{
	if (use->value->type == JSON_FALSE)
		return invalid(f, use->name, "\"%.*s\" is not allowed", STR_ARG(member->key));
	int result = child_check(f, use->nodes[0], member, index);
	if (result == 1 && f->seen)
		f->seen[index] = true;
	return result;
}

static int check_additional(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_OBJECT)
		return 1;
	size_t index = 0;
	JSON_EACH (member, f->value) {
		int named = member->shadowed ? 1 : is_named(f, member->key);
		TRY(named);
		int result = named ? 1 : rest_check(f, use, member, index);
		if (result != 1)
			return result;
		index++;
	}
	return 1;
}

static int check_unevaluated(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_OBJECT)
		return 1;
	size_t index = 0;
	JSON_EACH (member, f->value) {
		int result = member->shadowed || f->seen[index] ? 1 : rest_check(f, use, member, index);
		if (result != 1)
			return result;
		index++;
	}
	return 1;
}

/* A key is a value of its own, gone when it has been judged: so is what is remembered of it. */
static int name_check(const struct frame *f, const struct schema_node *node, struct str key, size_t index)
{
	const struct json name = {.type = JSON_STRING, .text = key, .key = key};
	struct schema_memo memo = f->c->memo;
	f->c->memo = (struct schema_memo){0};
	int result = child_check(f, node, &name, index);
	schema_memo_free(&f->c->memo);
	f->c->memo = memo;
	return result;
}

static int check_names(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_OBJECT)
		return 1;
	size_t index = 0;
	JSON_EACH (member, f->value) {
		int result = member->shadowed ? 1 : name_check(f, use->nodes[0], member->key, index);
		if (result < 0 || (result == 0 && f->c->trials > 0))
			return result;
		if (result == 0)
			return invalid(f, "propertyNames", "\"%.*s\" is not allowed", STR_ARG(member->key));
		index++;
	}
	return 1;
}

static int check_dependent_schemas(const struct frame *f, const struct schema_use *use)
{
	if (f->value->type != JSON_OBJECT)
		return 1;
	TRY(spend(f->c, (uint64_t)use->value->count * (f->value->count + 1)));
	size_t i = 0;
	JSON_EACH (dependency, use->value) {
		const struct schema_node *node = use->nodes[i++];
		int result = node && json_get_str(f->value, dependency->key) ? same_check(f, node) : 1;
		if (result != 1)
			return result;
	}
	return 1;
}

/* ---- Schemas of schemas ---- */

static int check_reference(const struct frame *f, const struct schema_use *use)
{
	return same_check(f, use->nodes[0]);
}

static int check_all_of(const struct frame *f, const struct schema_use *use)
{
	for (size_t i = 0; i < use->count; i++) {
		int result = same_check(f, use->nodes[i]);
		if (result != 1)
			return result;
	}
	return 1;
}

/* anyOf and oneOf. Where somebody asks what was evaluated, anyOf goes on after the first match. */
static int check_some_of(const struct frame *f, const struct schema_use *use)
{
	size_t matches = 0;
	const bool is_one = use->keyword == SCHEMA_ONE_OF;
	for (size_t i = 0; i < use->count; i++) {
		int result = trial_check(f, use->nodes[i]);
		TRY(result);
		matches += (size_t)result;
		if (matches > 0 && !is_one && !f->seen)
			return 1;
	}
	if (matches == 0)
		return invalid(f, use->name, "none of the %zu schemas holds", use->count);
	return matches > 1 && is_one ? invalid(f, use->name, "%zu schemas hold", matches) : 1;
}

static int check_not(const struct frame *f, const struct schema_use *use)
{
	struct frame unseen = *f;
	unseen.seen = NULL;
	int result = trial_check(&unseen, use->nodes[0]);
	TRY(result);
	return result == 0 ? 1 : invalid(f, "not", "the schema holds");
}

static int check_if(const struct frame *f, const struct schema_use *use)
{
	int condition = trial_check(f, use->nodes[0]);
	TRY(condition);
	const struct schema_use *branch = schema_use_of(f->node, condition ? SCHEMA_THEN : SCHEMA_ELSE);
	return branch ? same_check(f, branch->nodes[0]) : 1;
}

/* ---- One schema ---- */

/* NULL: read by another keyword, or nothing to check. */
static int (*const checks[])(const struct frame *f, const struct schema_use *use) = {
	[SCHEMA_REF] = check_reference,
	[SCHEMA_TYPE] = check_type,
	[SCHEMA_ENUM] = check_enum,
	[SCHEMA_CONST] = check_const,
	[SCHEMA_MULTIPLE_OF] = check_number,
	[SCHEMA_MINIMUM] = check_number,
	[SCHEMA_MAXIMUM] = check_number,
	[SCHEMA_EXCLUSIVE_MINIMUM] = check_number,
	[SCHEMA_EXCLUSIVE_MAXIMUM] = check_number,
	[SCHEMA_MIN_LENGTH] = check_size,
	[SCHEMA_MAX_LENGTH] = check_size,
	[SCHEMA_PATTERN] = check_pattern,
	[SCHEMA_MIN_ITEMS] = check_size,
	[SCHEMA_MAX_ITEMS] = check_size,
	[SCHEMA_UNIQUE_ITEMS] = check_unique,
	[SCHEMA_PREFIX_ITEMS] = check_prefix,
	[SCHEMA_ITEMS] = check_items,
	[SCHEMA_CONTAINS] = check_contains,
	[SCHEMA_MIN_PROPERTIES] = check_size,
	[SCHEMA_MAX_PROPERTIES] = check_size,
	[SCHEMA_REQUIRED] = check_required,
	[SCHEMA_DEPENDENT_REQUIRED] = check_dependent_required,
	[SCHEMA_PROPERTIES] = check_properties,
	[SCHEMA_PATTERN_PROPERTIES] = check_pattern_properties,
	[SCHEMA_ADDITIONAL_PROPERTIES] = check_additional,
	[SCHEMA_PROPERTY_NAMES] = check_names,
	[SCHEMA_DEPENDENT_SCHEMAS] = check_dependent_schemas,
	[SCHEMA_ALL_OF] = check_all_of,
	[SCHEMA_ANY_OF] = check_some_of,
	[SCHEMA_ONE_OF] = check_some_of,
	[SCHEMA_NOT] = check_not,
	[SCHEMA_IF] = check_if,
	[SCHEMA_UNEVALUATED_PROPERTIES] = check_unevaluated,
	[SCHEMA_ANNOTATION] = NULL,
};

static int uses_check(
	struct check *c, const struct schema_node *node, const struct json *value, const struct step *at, bool *seen)
{
	const struct frame f = {c, node, value, at, seen};
	if (node->source->type == JSON_FALSE)
		return invalid(&f, "false", "nothing is allowed here");
	for (size_t i = 0; i < node->n_uses; i++) {
		const struct schema_use *use = &node->uses[i];
		TRY(spend(c, 1));
		int result = checks[use->keyword] ? checks[use->keyword](&f, use) : 1;
		if (result != 1)
			return result;
	}
	return 1;
}

static int seen_new(struct check *c, const struct json *value, bool **out)
{
	TRY(spend(c, value->count));
	*out = mem_calloc(value->count, sizeof(**out), c->e);
	return *out ? 1 : ERR_MEMORY;
}

static void seen_add(bool *all, const bool *seen, size_t count)
{
	for (size_t i = 0; all && seen && i < count; i++)
		all[i] |= seen[i];
}

/* What it evaluated counts only when it holds, and its unevaluatedProperties sees no more than that. */
static int fresh_check(
	struct check *c, const struct schema_node *node, const struct json *value, const struct step *at, bool *all)
{
	bool *own = NULL;
	if (value->type == JSON_OBJECT && (all || schema_use_of(node, SCHEMA_UNEVALUATED_PROPERTIES)))
		TRY(seen_new(c, value, &own));
	if (c->depth == DEPTH_LIMIT) {
		free(own);
		return error_set(c->e, ERR_LIMIT, "a value and its schema lead deeper than %d", DEPTH_LIMIT);
	}
	c->depth++;
	int result = uses_check(c, node, value, at, own);
	c->depth--;
	if (result == 1)
		seen_add(all, own, value->count);
	free(own);
	return result;
}

/* Whether what is known of it is all that is asked: also for a failure that is to be told, it has to be judged again. */
static bool is_known(const struct check *c, const struct schema_finding *known, const bool *all)
{
	if (known->found == FOUND_VALID)
		return !all || known->seen;
	return known->found == FOUND_INVALID && (c->trials > 0 || !c->why || c->why->length > 0);
}

/* A schema that several references lead to, once on each value. */
static int target_check(
	struct check *c, const struct schema_node *node, const struct json *value, const struct step *at, bool *all)
{
	struct schema_finding *known = schema_memo_at(&c->memo, node, value, c->e);
	bool *seen = NULL;
	if (!known)
		return ERR_MEMORY;
	if (known->found == FOUND_OPEN)
		return error_set(
			c->e, ERR_LIMIT, "a $ref of the schema leads to itself without going down into the value");
	if (!is_known(c, known, all)) {
		known->found = FOUND_OPEN;
		TRY(spend(c, FINDING_WORK));
		if (all)
			TRY(seen_new(c, value, &seen));
		int result = fresh_check(c, node, value, at, seen);
		known = schema_memo_at(&c->memo, node, value, c->e);
		if (result < 0 || !known) {
			free(seen);
			return result < 0 ? result : ERR_MEMORY;
		}
		free(known->seen);
		known->seen = seen;
		known->found = result == 1 ? FOUND_VALID : FOUND_INVALID;
	}
	if (known->found == FOUND_VALID)
		seen_add(all, known->seen, value->count);
	return known->found == FOUND_VALID;
}

static int node_check(
	struct check *c, const struct schema_node *node, const struct json *value, const struct step *at, bool *seen)
{
	bool *all = value->type == JSON_OBJECT ? seen : NULL;
	TRY(spend(c, 1));
	return node->is_target ? target_check(c, node, value, at, all) : fresh_check(c, node, value, at, all);
}

int json_schema_check(const struct json_schema *s, const struct json *instance, struct buf *why, struct error *e)
{
	struct check c = {.work = WORK_LIMIT, .why = why, .e = e};
	const struct step at = {.value = instance};
	int result = node_check(&c, s->root, instance, &at, NULL);
	schema_memo_free(&c.memo);
	return result;
}

/* ---- The command ---- */

static int judge(const struct json *schema, const struct json *instance, struct buf *why, struct error *e)
{
	struct json_document *document = NULL;
	struct json_schema *compiled = NULL;
	struct error not_json = {0};
	TRY(json_schema_new(schema, &compiled, e));
	int result = 1;
	if (json_is(instance, JSON_STRING)) {
		if (json_parse(instance->text, NULL, JSON_LAST_KEY_WINS, &document, &not_json) < 0)
			result = 0;
		else
			instance = json_root(document);
	}
	if (result == 0)
		buf_printf(why, "not JSON: %s", not_json.message);
	else
		result = json_schema_check(compiled, instance, why, e);
	json_free(document);
	json_schema_delete(compiled);
	return result;
}

/* The instance is JSON text; what is no string is taken as it stands in the line. */
static int rescore_line(const struct json *line, struct buf *out, struct error *e)
{
	const struct json *schema = json_get(line, "schema"), *instance = json_get(line, "instance");
	struct error why_not = {0};
	struct buf why = {0};
	if (!schema || !instance)
		return error_set(e, ERR_INPUT, "expected an object with \"schema\" and \"instance\"");
	int valid = judge(schema, instance, &why, &why_not);
	buf_append_text(out, valid < 0 ? "{\"error\": " : valid ? "{\"valid\": true" : "{\"valid\": false, \"why\": ");
	if (valid != 1)
		json_write_string(valid < 0 ? str_of(why_not.message) : buf_str(&why), false, out);
	buf_append_text(out, "}\n");
	buf_free(&why);
	return 0;
}

int json_schema_rescore(const char *path, struct buf *out, struct error *e)
{
	struct buf text = {0};
	struct str line;
	int status = 0;
	TRY_CLEANUP(status, file_read(path, &text, e));
	struct line_cursor cursor = {.text = buf_str(&text)};
	while (line_next(&cursor, &line)) {
		struct json_document *document = NULL;
		status = json_parse(line, NULL, JSON_LINE | JSON_LAST_KEY_WINS, &document, e);
		if (status == 0)
			status = rescore_line(json_root(document), out, e);
		json_free(document);
		if (status < 0)
			TRY_CLEANUP(status, error_prefix(e, "%s:%zu", input_name(path), cursor.line));
	}
	TRY_CLEANUP(status, buf_check(out, e));
cleanup:
	buf_free(&text);
	return status;
}
