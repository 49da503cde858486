#include "evals/pending_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int add_path(char ***paths, size_t *n, const char *path, struct error *e)
{
	char **grown = reallocarray(*paths, *n + 1, sizeof(*grown));
	if (grown)
		*paths = grown;
	char *copy = grown ? strdup(path) : NULL;
	if (!copy)
		return error_set(e, ERR_MEMORY, "no memory for the names of files");
	grown[(*n)++] = copy;
	return 0;
}

static int make_one(struct pending_files *p, const char *path, struct error *e)
{
	if (mkdir(path, 0777) == 0)
		return add_path(&p->folders, &p->n_folders, path, e);
	return errno == EEXIST ? 0 : error_set(e, ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
}

int pending_folder(struct pending_files *p, const char *path, struct error *e)
{
	char *copy = strdup(path);
	int status = copy ? 0 : error_set(e, ERR_MEMORY, "no memory for the name of a folder");
	for (char *slash = copy && *copy ? strchr(copy + 1, '/') : NULL; slash && status == 0;
		slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		status = make_one(p, copy, e);
		*slash = '/';
	}
	if (status == 0)
		status = make_one(p, copy, e);
	free(copy);
	return status;
}

/* "results.json.part" */
static char *part_of(const char *path)
{
	struct buf name = {0};
	buf_printf(&name, "%s.part", path);
	if (name.failed)
		buf_free(&name);
	return name.data;
}

int pending_write(struct pending_files *p, const char *path, const struct buf *text, struct error *e)
{
	TRY(add_path(&p->files, &p->n_files, path, e));
	char *part = part_of(path);
	if (!part)
		return error_set(e, ERR_MEMORY, "no memory for the name of a file");
	FILE *file = fopen(part, "we");
	bool written = file && fwrite(buf_text(text), 1, text->length, file) == text->length;
	if (file && fclose(file) != 0)
		written = false;
	free(part);
	return written ? 0 : error_set(e, ERR_IO, "cannot write %s: %s", path, strerror(errno));
}

int pending_finish(struct pending_files *p, struct error *e)
{
	for (size_t i = 0; i < p->n_files; i++) {
		char *part = part_of(p->files[i]);
		if (!part)
			return error_set(e, ERR_MEMORY, "no memory for the name of a file");
		bool renamed = rename(part, p->files[i]) == 0;
		free(part);
		if (!renamed)
			return error_set(e, ERR_IO, "cannot write %s: %s", p->files[i], strerror(errno));
	}
	return 0;
}

void pending_free(struct pending_files *p)
{
	for (size_t i = 0; i < p->n_files; i++) {
		char *part = part_of(p->files[i]);
		if (part)
			unlink(part);
		free(part);
		free(p->files[i]);
	}
	for (size_t i = p->n_folders; i-- > 0;) {
		rmdir(p->folders[i]);
		free(p->folders[i]);
	}
	free(p->files);
	free(p->folders);
	*p = (struct pending_files){0};
}
