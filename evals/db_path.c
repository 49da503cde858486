#include <stdlib.h>

#include "engine/base/file.h"
#include "evals/cli.h"

/* The folder of user data: XDG's, which counts only when it is absolute, else the one below the home folder. */
static char *data_home(struct error *e)
{
	const char *xdg = getenv("XDG_DATA_HOME");
	if (xdg && xdg[0] == '/')
		return path_join(xdg, "assay", e);
	const char *home = getenv("HOME");
	if (home && home[0] == '/')
		return path_join(home, ".local/share/assay", e);
	error_set(e, ERR_USAGE,
		"no place for the database: neither XDG_DATA_HOME nor HOME is an absolute path, expected --db FILE");
	return NULL;
}

char *db_path(const struct options *o, struct error *e)
{
	if (o->db) {
		char *copy = strdup(o->db);
		if (!copy)
			error_set(e, ERR_MEMORY, "no memory for the path of the database");
		return copy;
	}
	char *folder = data_home(e);
	char *path = folder ? path_join(folder, "assay.db", e) : NULL;
	free(folder);
	return path;
}
