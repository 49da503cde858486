/* Members of a config file's objects, checked: type, range, finite. Errors name the file, the key, its value and what
 * was expected. */
#ifndef ASSAY_ENGINE_MODEL_CONFIG_OBJECT_H
#define ASSAY_ENGINE_MODEL_CONFIG_OBJECT_H

#include <stdbool.h>

#include "engine/base/error.h"
#include "engine/base/json_strict.h"
#include "engine/base/str.h"

struct config_object {
	const struct json *json; /* an object */
	const char *file;        /* borrowed */
	char path[64];           /* what stands before its keys in errors: "", or "rope_scaling." */
};

/* Reads and parses a JSON file; flags as json_parse. */
int config_read_json(const char *path, int flags, struct json_document **out, struct error *e);

/* The root of a file; refuses what is no object. */
int config_object_root(const struct json *json, const char *file, struct config_object *out, struct error *e);

/* The readers below return 1 when the member is there, and 0, leaving *value alone, when it is absent or null.
 * Ranges include both ends. A number written with '.' or an exponent is no integer. */
int config_int(const struct config_object *o, const char *key, int low, int high, int *value, struct error *e);
int config_double(
	const struct config_object *o, const char *key, double low, double high, double *value, struct error *e);
int config_bool(const struct config_object *o, const char *key, bool *value, struct error *e);
int config_text(const struct config_object *o, const char *key, struct str *value, struct error *e);
int config_child(const struct config_object *o, const char *key, struct config_object *value, struct error *e);

/* Turns "not there" (status 0) into an error that says what was expected. */
int config_required(int status, const struct config_object *o, const char *key, struct error *e);

/* "FILE: KEY is VALUE, expected ..."; value is shown if it is a scalar, else its type. */
int config_wrong(const struct config_object *o, const char *key, const struct json *value, const char *expected,
	struct error *e);

/* "FILE: KEY 'VALUE' is not built; built: ..." */
int config_not_built(
	const struct config_object *o, const char *key, struct str value, const char *built, struct error *e);

#endif
