#include "reports/html.h"

#include "engine/base/utf8.h"

/* ---- Text ---- */

/* Characters that are not seen and change how others are: controls, marks of direction, line separators, noncharacters.
 */
static bool is_unseen(int32_t c)
{
	return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e ||
		c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff ||
		(c >= 0xfdd0 && c <= 0xfdef) || (c & 0xfffe) == 0xfffe;
}

static void append_character(struct buf *out, int32_t c)
{
	switch (c) {
	case '&':
		buf_append_text(out, "&amp;");
		break;
	case '<':
		buf_append_text(out, "&lt;");
		break;
	case '>':
		buf_append_text(out, "&gt;");
		break;
	case '"':
		buf_append_text(out, "&quot;");
		break;
	case '\'':
	case '`':
		buf_printf(out, "&#%d;", (int)c);
		break;
	default:
		if (c < 0)
			utf8_append(out, 0xfffd);
		else if (is_unseen(c))
			buf_printf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
		else
			utf8_append(out, c);
	}
}

void html_text(struct buf *out, struct str s)
{
	for (size_t at = 0; at < s.length;)
		append_character(out, utf8_next(s, &at));
}

void html_text_cut(struct buf *out, struct str s, size_t limit)
{
	size_t at = 0;
	while (at < s.length && at < limit)
		append_character(out, utf8_next(s, &at));
	if (at < s.length)
		buf_printf(out, "<span class=\"cut\"> … %zu bytes more</span>", s.length - at);
}

/* ---- The page ---- */

static const char styles[] =
	":root{color-scheme:light dark;--ground:#fff;--text:#1b1f24;--faint:#57606a;--line:#d0d7de;--band:#f6f8fa;"
	"--pass:#0a5c2b;--pass-ground:#dff5e5;--fail:#9a1c13;--fail-ground:#fde7e4;--open:#6b4800;--open-ground:#"
	"fff3cd;"
	"--link:#0550ae}\n"
	"@media (prefers-color-scheme:dark){:root{--ground:#15181c;--text:#e6e8ea;--faint:#a2abb5;--line:#3b424a;"
	"--band:#1f2429;--pass:#8ee6a8;--pass-ground:#12331e;--fail:#ffb1a8;--fail-ground:#431a16;--open:#f5d98a;"
	"--open-ground:#3b2f0c;--link:#8ab8ff}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0;background:var(--ground);color:var(--text);font:16px/1.5 system-ui,\"DejaVu Sans\",sans-serif;"
	"overflow-wrap:anywhere}\n"
	"main,header,footer{max-width:1200px;margin:0 auto;padding:0 16px}\n"
	"h1{font-size:1.6rem;line-height:1.25;margin:1.2rem 0 .4rem;overflow-wrap:anywhere}\n"
	"h2{font-size:1.25rem;margin:2.2rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line);"
	"overflow-wrap:anywhere}\n"
	"h3{font-size:1.05rem;margin:1.4rem 0 .4rem;overflow-wrap:anywhere}\n"
	"a{color:var(--link)}\n"
	"nav ul{list-style:none;margin:.6rem 0;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1rem}\n"
	".verdict{border:2px solid;border-radius:8px;padding:.8rem 1rem;margin:1rem 0;overflow-wrap:anywhere}\n"
	".verdict p{margin:.3rem 0}\n"
	".verdict .word{font-weight:700;font-size:1.2rem;letter-spacing:.04em}\n"
	".pass{color:var(--pass);background:var(--pass-ground)}\n"
	".fail{color:var(--fail);background:var(--fail-ground)}\n"
	".inconclusive{color:var(--open);background:var(--open-ground)}\n"
	".scroll{overflow-x:auto;overflow-wrap:normal;margin:.8rem 0;border:1px solid var(--line);border-radius:6px}\n"
	".scroll:focus-visible{outline:3px solid var(--link)}\n"
	"table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}\n"
	"caption{text-align:left;font-weight:600;padding:.5rem .7rem;font-size:.95rem}\n"
	"th,td{padding:.35rem .55rem;border-top:1px solid var(--line);text-align:left;vertical-align:top;"
	"white-space:nowrap}\n"
	".wide{white-space:normal;min-width:18rem;overflow-wrap:anywhere}\n"
	"thead th{background:var(--band)}\n"
	"tbody tr:nth-child(even){background:var(--band)}\n"
	".n{text-align:right}\n"
	".note,.faint{color:var(--faint);font-size:.875rem;overflow-wrap:anywhere}\n"
	"figure{margin:.8rem 0;border:1px solid var(--line);border-radius:6px;background:#fff}\n"
	"figure .box{overflow-x:auto}\n"
	"figure img{display:block;width:100%;min-width:640px;max-width:960px;height:auto;margin:0 auto}\n"
	"figcaption{color:#444;font-size:.85rem;padding:.4rem .7rem;border-top:1px solid #ddd}\n"
	"details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;padding:0 .7rem}\n"
	"summary{cursor:pointer;padding:.5rem 0;overflow-wrap:anywhere}\n"
	"pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--band);border:1px solid var(--line);"
	"border-radius:4px;padding:.5rem .7rem;margin:.3rem 0 .8rem;font:13px/1.45 ui-monospace,\"DejaVu Sans "
	"Mono\",monospace;max-height:30rem;overflow-y:auto}\n"
	".sides{display:grid;grid-template-columns:1fr 1fr;gap:0 1rem}\n"
	".sides>div{min-width:0}\n"
	"@media (max-width:700px){.sides{grid-template-columns:1fr}body{font-size:15px}}\n"
	"ins{background:var(--pass-ground);color:var(--pass)}del{background:var(--fail-ground);color:var(--fail);"
	"text-decoration:underline dotted}\n"
	".cut{color:var(--faint);font-style:italic}\n"
	"@media print{:root{--ground:#fff;--text:#000;--band:#f2f2f2;--line:#999}nav{display:none}"
	".scroll,pre,figure .box{overflow:visible;max-height:none}table{font-size:.7rem}th,td{padding:.15rem .3rem;"
	"white-space:normal}figure img{min-width:0}figure,.verdict,tr{break-inside:avoid}}\n";

void html_begin(struct buf *out, const char *title)
{
	buf_append_text(out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
		"img-src data:\">\n<title>");
	html_text(out, str_of(title));
	buf_append_text(out, "</title>\n<style>\n");
	buf_append_text(out, styles);
	buf_append_text(out, "</style>\n</head>\n<body>\n");
}

void html_end(struct buf *out)
{
	buf_append_text(out, "</body>\n</html>\n");
}

/* ---- Tables and images ---- */

enum { WIDE_CELL = 48 }; /* characters: longer texts wrap */

static void append_cell(struct buf *out, const struct report_table *t, size_t i)
{
	const struct table_cell *cell = &t->cells[i];
	size_t column = i % (size_t)t->n_columns;
	struct buf text = {0};
	table_cell_show(t, cell, &text);
	const char *class = t->numeric[column] ? " class=\"n\"" : text.length > WIDE_CELL ? " class=\"wide\"" : "";
	buf_printf(out, column == 0 ? "<th scope=\"row\"%s>" : "<td%s>", class);
	html_text(out, buf_str(&text));
	buf_append_text(out, column == 0 ? "</th>" : "</td>");
	buf_free(&text);
}

void html_table(struct buf *out, const struct report_table *t)
{
	if (t->n_cells == 0)
		return;
	buf_append_text(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
	html_text(out, str_of(t->title));
	buf_append_text(out, "\">\n<table>\n<caption>");
	html_text(out, str_of(t->title));
	buf_append_text(out, "</caption>\n<thead><tr>");
	for (int i = 0; i < t->n_columns; i++) {
		buf_printf(out, "<th scope=\"col\"%s>", t->numeric[i] ? " class=\"n\"" : "");
		html_text(out, table_cell_text(t, &t->columns[i]));
		buf_append_text(out, "</th>");
	}
	buf_append_text(out, "</tr></thead>\n<tbody>\n");
	for (size_t i = 0; i < t->n_cells; i++) {
		bool first = i % (size_t)t->n_columns == 0, last = (i + 1) % (size_t)t->n_columns == 0;
		buf_append_text(out, first ? "<tr>" : "");
		append_cell(out, t, i);
		buf_append_text(out, last ? "</tr>\n" : "");
	}
	buf_append_text(out, "</tbody>\n</table>\n</div>\n");
	if (t->note.length) {
		buf_append_text(out, "<p class=\"note\">");
		html_text(out, buf_str(&t->note));
		buf_append_text(out, "</p>\n");
	}
}

static void append_base64(struct buf *out, struct str s)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < s.length; i += 3) {
		size_t n = s.length - i < 3 ? s.length - i : 3;
		unsigned bits = 0;
		for (size_t j = 0; j < 3; j++)
			bits = bits << 8 | (j < n ? (unsigned char)s.data[i + j] : 0);
		char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63], n > 1 ? digits[bits >> 6 & 63] : '=',
			n > 2 ? digits[bits & 63] : '='};
		buf_append(out, four, 4);
	}
}

void html_image(struct buf *out, struct str svg, const char *alternative)
{
	buf_append_text(
		out, "<figure>\n<div class=\"box\" tabindex=\"0\" role=\"region\" aria-label=\"Plot\"><img alt=\"");
	html_text(out, str_of(alternative));
	buf_append_text(out, "\" src=\"data:image/svg+xml;base64,");
	append_base64(out, svg);
	buf_append_text(out, "\"></div>\n<figcaption>");
	html_text(out, str_of(alternative));
	buf_append_text(out, "</figcaption>\n</figure>\n");
}
