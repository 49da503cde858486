#include "evals/chat_date.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Digits and marks where `pattern` has 'd' and marks. */
static bool has_form(const char *text, const char *pattern)
{
	for (; *pattern; pattern++, text++)
		if (*pattern == 'd' ? *text < '0' || *text > '9' : *text != *pattern)
			return false;
	return !*text;
}

static int two_digits(const char *text)
{
	return (text[0] - '0') * 10 + (text[1] - '0');
}

int chat_date_parse(const char *text, struct tm *out, struct error *e)
{
	if (!text) {
		time_t now = time(NULL);
		if (!localtime_r(&now, out))
			return error_set(e, ERR_IO, "the local time is not known: give --date");
		return 0;
	}
	bool with_time = has_form(text, "dddd-dd-ddTdd:dd:dd");
	*out = (struct tm){0};
	if (!with_time && !has_form(text, "dddd-dd-dd"))
		return error_set(e, ERR_USAGE, "--date: '%.80s', expected YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS", text);
	out->tm_year = two_digits(text) * 100 + two_digits(text + 2) - 1900;
	out->tm_mon = two_digits(text + 5) - 1;
	out->tm_mday = two_digits(text + 8);
	if (with_time) {
		out->tm_hour = two_digits(text + 11);
		out->tm_min = two_digits(text + 14);
		out->tm_sec = two_digits(text + 17);
	}
	struct tm given = *out;
	(void)timegm(out); /* works out the day of the week and of the year */
	if (out->tm_year != given.tm_year || out->tm_mon != given.tm_mon || out->tm_mday != given.tm_mday ||
		out->tm_hour != given.tm_hour || out->tm_min != given.tm_min || out->tm_sec != given.tm_sec)
		return error_set(e, ERR_USAGE, "--date: there is no day or time '%.80s'", text);
	return 0;
}

void chat_date_print(const struct tm *t, char out[CHAT_DATE_SIZE])
{
	strftime(out, CHAT_DATE_SIZE, "%Y-%m-%dT%H:%M:%S", t);
}
