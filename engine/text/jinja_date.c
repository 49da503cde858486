#include "engine/text/jinja_date.h"

static const char *const months[] = {"January", "February", "March", "April", "May", "June", "July", "August",
	"September", "October", "November", "December"};
static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

static bool is_leap(int year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* ISO 8601: weeks begin on Monday, the first one holds the year's first Thursday. */
static int iso_week(const struct tm *t, int *year)
{
	int weekday = (t->tm_wday + 6) % 7;
	int week = (t->tm_yday - weekday + 10) / 7;
	*year = t->tm_year + 1900;
	if (week < 1) {
		--*year;
		int day = t->tm_yday + (is_leap(*year) ? 366 : 365);
		return (day - weekday + 10) / 7;
	}
	int thursday = t->tm_yday - weekday + 3;
	if (thursday >= (is_leap(*year) ? 366 : 365)) {
		++*year;
		return 1;
	}
	return week;
}

/* A number with the padding that its flag asks for: '-' none, '_' blanks, '0' or nothing as is usual. */
static void append_number(struct buf *out, char flag, int width, char fill, int value)
{
	if (flag == '-')
		width = 0;
	else if (flag == '_')
		fill = ' ';
	else if (flag == '0')
		fill = '0';
	if (fill == '0')
		buf_printf(out, "%0*d", width, value);
	else
		buf_printf(out, "%*d", width, value);
}

/* The numbers of a time by their letter. */
static bool append_field(const struct tm *t, char flag, char letter, struct buf *out)
{
	int year = t->tm_year + 1900, iso_year, week = iso_week(t, &iso_year);
	int hour = (t->tm_hour + 11) % 12 + 1;
	const struct {
		char letter;
		int width;
		char fill;
		int value;
	} fields[] = {
		{'d', 2, '0', t->tm_mday},
		{'e', 2, ' ', t->tm_mday},
		{'m', 2, '0', t->tm_mon + 1},
		{'Y', 0, '0', year},
		{'y', 2, '0', year % 100},
		{'C', 2, '0', year / 100},
		{'G', 0, '0', iso_year},
		{'g', 2, '0', iso_year % 100},
		{'V', 2, '0', week},
		{'U', 2, '0', (t->tm_yday + 7 - t->tm_wday) / 7},
		{'W', 2, '0', (t->tm_yday + 7 - (t->tm_wday + 6) % 7) / 7},
		{'H', 2, '0', t->tm_hour},
		{'k', 2, ' ', t->tm_hour},
		{'I', 2, '0', hour},
		{'l', 2, ' ', hour},
		{'M', 2, '0', t->tm_min},
		{'S', 2, '0', t->tm_sec},
		{'j', 3, '0', t->tm_yday + 1},
		{'u', 1, '0', t->tm_wday == 0 ? 7 : t->tm_wday},
		{'w', 1, '0', t->tm_wday},
		{'f', 6, '0', 0},
	};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		if (fields[i].letter != letter)
			continue;
		append_number(out, flag, fields[i].width, fields[i].fill, fields[i].value);
		return true;
	}
	return false;
}

static bool append_name(const struct tm *t, char letter, struct buf *out)
{
	switch (letter) {
	case 'A':
	case 'a':
		buf_printf(out, letter == 'A' ? "%s" : "%.3s", days[t->tm_wday]);
		return true;
	case 'B':
	case 'b':
	case 'h':
		buf_printf(out, letter == 'B' ? "%s" : "%.3s", months[t->tm_mon]);
		return true;
	case 'p':
	case 'P':
		buf_append_text(out, letter == 'p' ? (t->tm_hour < 12 ? "AM" : "PM") : t->tm_hour < 12 ? "am" : "pm");
		return true;
	case 'n':
	case 't':
	case '%':
		buf_append_char(out, letter == 'n' ? '\n' : letter == 't' ? '\t' : '%');
		return true;
	case 'z':
	case 'Z': /* of a time without a zone: nothing */
		return true;
	default:
		return false;
	}
}

/* What is short for several. */
static const char *composite(char letter)
{
	static const char *const formats[] = {"%a %b %e %H:%M:%S %Y", "%m/%d/%y", "%m/%d/%y", "%Y-%m-%d", "%H:%M",
		"%I:%M:%S %p", "%H:%M:%S", "%H:%M:%S"};
	static const char letters[] = "cxDFRrTX";
	const char *found = letter ? strchr(letters, letter) : NULL;
	return found ? formats[found - letters] : NULL;
}

void jinja_strftime(const struct tm *t, struct str format, struct buf *out)
{
	for (size_t i = 0; i < format.length; i++) {
		if (format.data[i] != '%' || i + 1 == format.length) {
			buf_append_char(out, format.data[i]);
			continue;
		}
		size_t start = i++;
		char flag = strchr("-_0", format.data[i]) && format.data[i] ? format.data[i] : '\0';
		if (flag && i + 1 < format.length)
			i++;
		char letter = format.data[i];
		const char *parts = composite(letter);
		if (parts)
			jinja_strftime(t, str_of(parts), out);
		else if (!append_name(t, letter, out) && !append_field(t, flag, letter, out))
			buf_append(out, format.data + start, i - start + 1);
	}
}
