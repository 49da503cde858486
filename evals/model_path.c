#include "evals/model_path.h"

#include <stdlib.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"

/* The buffer's text becomes the caller's C string. */
static int text_take(struct buf *b, char **out, struct error *e)
{
	TRY(buf_check(b, e));
	*out = b->data;
	return *out ? 0 : error_set(e, ERR_MEMORY, "out of memory");
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value && value[0] ? value : NULL;
}

static void append_hub_cache(struct buf *b)
{
	const char *hub = variable("HF_HUB_CACHE"), *hf = variable("HF_HOME"), *xdg = variable("XDG_CACHE_HOME");
	if (hub)
		buf_append_text(b, hub);
	else if (hf)
		buf_printf(b, "%s/hub", hf);
	else if (xdg)
		buf_printf(b, "%s/huggingface/hub", xdg);
	else
		buf_printf(b, "%s/.cache/huggingface/hub", variable("HOME") ? variable("HOME") : "");
}

/* "org/name" and nothing else: no leading dot or slash, one slash inside. */
static bool is_hub_name(const char *text)
{
	const char *slash = strchr(text, '/');
	return slash && slash != text && slash[1] && !strchr(slash + 1, '/') && text[0] != '.' && text[0] != '~';
}

/* HUB/models--org--name/refs/main names the snapshot. */
static int hub_snapshot(const char *name, struct buf *path, struct error *e)
{
	struct buf ref_path = {0}, ref = {0};
	size_t slash = (size_t)(strchr(name, '/') - name);

	append_hub_cache(path);
	buf_append_text(path, "/models--");
	buf_append(path, name, slash);
	buf_printf(path, "--%s", name + slash + 1);
	buf_printf(&ref_path, "%s/refs/main", buf_text(path));
	int status = buf_check(&ref_path, e);
	if (status == 0 && !file_exists(buf_text(&ref_path)))
		status = error_set(e, ERR_MISSING, "model '%s': no such folder, and the hub cache has no %s", name,
			buf_text(&ref_path));
	if (status == 0)
		status = file_read(buf_text(&ref_path), &ref, e);
	if (status == 0) {
		size_t length = strcspn(buf_text(&ref), "\r\n");
		buf_append_text(path, "/snapshots/");
		buf_append(path, buf_text(&ref), length);
		if (!file_is_folder(buf_text(path)))
			status = error_set(e, ERR_MISSING, "model '%s': snapshot %s is missing", name, buf_text(path));
	}
	buf_free(&ref_path);
	buf_free(&ref);
	return status;
}

static int pocket_part(const char *part, char **out, struct error *e)
{
	char *folder = pocket_folder(e);
	if (!folder)
		return e->code;
	*out = path_join(folder, part, e);
	free(folder);
	return *out ? 0 : ERR_MEMORY;
}

static bool has_gguf_name(const char *path)
{
	static const char end[] = ".gguf";
	size_t length = strlen(path), end_length = sizeof end - 1;
	return length > end_length && strcmp(path + length - end_length, end) == 0;
}

int model_path(const struct options *o, char **out, struct error *e)
{
	struct buf path = {0};
	int status = 0;

	*out = NULL;
	if (!o->model)
		return pocket_part("model", out, e);
	if (file_is_folder(o->model) || (file_exists(o->model) && has_gguf_name(o->model)))
		buf_append_text(&path, o->model);
	else if (file_exists(o->model))
		status = error_set(e, ERR_INPUT,
			"model '%s' is a file: expected a .gguf file, or a Hugging Face folder (config.json, "
			"*.safetensors)",
			o->model);
	else if (is_hub_name(o->model))
		status = hub_snapshot(o->model, &path, e);
	else
		status = error_set(e, ERR_MISSING, "model '%s': no such folder or file", o->model);
	if (status == 0)
		status = text_take(&path, out, e);
	if (status < 0)
		buf_free(&path);
	return status;
}

int data_path(const struct options *o, char **out, struct error *e)
{
	struct buf path = {0};

	*out = NULL;
	if (!o->data)
		return pocket_part("data", out, e);
	if (!file_is_folder(o->data))
		return error_set(e, ERR_MISSING, "data '%s': no such folder; expected one with gsm8k/, arc/, mmlu/ ...",
			o->data);
	buf_append_text(&path, o->data);
	return text_take(&path, out, e);
}
