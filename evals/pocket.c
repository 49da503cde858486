#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "evals/cli.h"

/* The folder that the running program lies in. */
static char *program_folder(struct error *e)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	if (length < 0)
		length = 0;
	path[length] = '\0';
	char *slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	char *copy = strdup(path);
	if (!copy)
		error_set(e, ERR_MEMORY, "no memory for the path of the program");
	return copy;
}

char *pocket_folder(struct error *e)
{
	/* beside a build folder of the source tree; where it is installed; the source tree of a build elsewhere */
	static const char *const places[] = {"../datasets/pocket", "../share/assay/pocket"};
	char *program = program_folder(e);
	if (!program)
		return NULL;
	char *found = NULL;
	for (size_t i = 0; !found && i < sizeof(places) / sizeof(places[0]); i++) {
		char *path = path_join(program, places[i], e);
		if (path && file_is_folder(path))
			found = realpath(path, NULL); /* without the "..": the path is shown and stored */
		free(path);
	}
	if (!found && file_is_folder(ASSAY_SOURCE_DIR "/datasets/pocket"))
		found = strdup(ASSAY_SOURCE_DIR "/datasets/pocket");
	if (!found)
		error_set(e, ERR_MISSING,
			"the bundled pocket set is neither in %s/%s, %s/%s nor " ASSAY_SOURCE_DIR
			"/datasets/pocket; give --model and --data",
			program, places[0], program, places[1]);
	free(program);
	return found;
}
