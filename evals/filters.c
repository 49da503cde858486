#include "evals/filters.h"

#include <stdlib.h>

#include "engine/base/utf8.h"
#include "evals/regex.h"

enum filter_select { SELECT_FIRST, SELECT_LAST };

struct filter_rule {
	const char *name;
	const char *pattern; /* NULL: the whole response */
	enum filter_select select;
};

#define FLEXIBLE_NUMBER "(-?[$0-9.,]{2,})|(-?[0-9]+)"

/* Patterns as in the harness's task files; the unescaped last dot of gsm8k_cot is theirs. */
static const struct filter_rule rules[] = {
	{"gsm8k:strict-match", "#### (\\-?[0-9\\.\\,]+)", SELECT_FIRST},
	{"gsm8k:flexible-extract", FLEXIBLE_NUMBER, SELECT_LAST},
	{"gsm8k_cot:strict-match", "The answer is (\\-?[0-9\\.\\,]+).", SELECT_FIRST},
	{"gsm8k_cot:flexible-extract", FLEXIBLE_NUMBER, SELECT_LAST},
	{"mmlu_pro:custom-extract", "answer is \\(?([ABCDEFGHIJ])\\)?", SELECT_FIRST},
	{"arc_challenge_chat:remove_whitespace", NULL, SELECT_FIRST},
	{"recall:none", NULL, SELECT_FIRST},
};

enum { RULE_COUNT = sizeof(rules) / sizeof(rules[0]) };

#define NO_MATCH "[invalid]"

struct filter {
	const struct filter_rule *rule;
	struct regex *regex; /* NULL where the rule has no pattern */
};

static int unknown_filter(struct str name, struct error *e)
{
	struct buf known = {0};
	for (int i = 0; i < RULE_COUNT; i++)
		buf_printf(&known, "%s%s", i ? ", " : "", rules[i].name);
	int status = error_set(e, ERR_INPUT, "unknown filter \"%.*s\" (known: %s)", STR_ARG(name), buf_text(&known));
	buf_free(&known);
	return status;
}

int filter_new(struct str name, struct filter **out, struct error *e)
{
	const struct filter_rule *rule = NULL;
	for (int i = 0; i < RULE_COUNT && !rule; i++)
		if (str_is(name, rules[i].name))
			rule = &rules[i];
	if (!rule)
		return unknown_filter(name, e);
	struct filter *f = mem_calloc(1, sizeof(*f), e);
	if (!f)
		return ERR_MEMORY;
	f->rule = rule;
	int status = rule->pattern ? regex_new(rule->pattern, &f->regex, e) : 0;
	if (status < 0) {
		filter_delete(f);
		return status;
	}
	*out = f;
	return 0;
}

void filter_delete(struct filter *f)
{
	if (!f)
		return;
	regex_delete(f->regex);
	free(f);
}

const char *filter_name(const struct filter *f)
{
	return f->rule->name;
}

const char *filter_short_name(const char *name)
{
	const char *colon = strchr(name, ':');
	return colon ? colon + 1 : name;
}

/* What re.findall gives for one match and the filter makes of it: the whole without groups, the group where there is
 * one, the first group that is not empty where there are several. False: several groups, all empty. */
static bool match_text(const struct regex *r, struct str response, struct str *text)
{
	int groups = regex_group_count(r);
	*text = regex_group(r, response, groups ? 1 : 0);
	for (int i = 2; i <= groups && text->length == 0; i++)
		*text = regex_group(r, response, i);
	return groups < 2 || text->length > 0;
}

int filter_apply(const struct filter *f, struct str response, struct buf *out, struct error *e)
{
	struct str chosen = response;
	if (f->regex) {
		struct regex_cursor cursor = {0};
		chosen = str_of(NO_MATCH);
		int found;
		while ((found = regex_next(f->regex, response, &cursor, e)) > 0) {
			if (!match_text(f->regex, response, &chosen))
				chosen = str_of(NO_MATCH);
			if (f->rule->select == SELECT_FIRST)
				break;
		}
		TRY(found);
	}
	buf_append_str(out, utf8_strip(chosen));
	return buf_check(out, e);
}
