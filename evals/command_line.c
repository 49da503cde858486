#include "evals/command_line.h"

#include "engine/base/file.h"

void command_line_append(struct buf *out)
{
	struct buf raw = {0};
	struct error ignored;
	if (file_read("/proc/self/cmdline", &raw, &ignored) < 0 || raw.length == 0)
		buf_append_text(&raw, "assay run");
	for (size_t i = 0; i < raw.length; i++)
		buf_append_char(out, raw.data[i] ? raw.data[i] : i + 1 < raw.length ? ' ' : '\0');
	while (out->length > 0 && out->data[out->length - 1] == '\0')
		out->length--;
	buf_free(&raw);
}
