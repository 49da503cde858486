/* Files that appear all together: each is written beside its place, as NAME.part, and they are put in their places at
 * the end. After a failure nothing of them is left, and what stood in their places stands there still. */
#ifndef ASSAY_EVALS_PENDING_FILES_H
#define ASSAY_EVALS_PENDING_FILES_H

#include "engine/base/buf.h"
#include "engine/base/error.h"

/* Starts zeroed. */
struct pending_files {
	char **files, **folders; /* their places; folders that were made for them; owned */
	size_t n_files, n_folders;
};

/* Makes the folder and those above it. */
int pending_folder(struct pending_files *p, const char *path, struct error *e);
int pending_write(struct pending_files *p, const char *path, const struct buf *text, struct error *e);
/* Puts all files in their places. */
int pending_finish(struct pending_files *p, struct error *e);
/* Takes away what is not in its place, and the folders that were made, where they are empty. Zeroes *p. */
void pending_free(struct pending_files *p);

#endif
