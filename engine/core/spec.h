/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "engine/core/spec-fields.h"

G_BEGIN_DECLS

/* What is wrong with a spec (or with what it names): where, and what to do. */
typedef struct
{
  char *key;   /* "group.key"; NULL: no one key */
  char *value; /* NULL: none */
  char *file;  /* NULL: not from a file */
  guint line;  /* 1-based; 0: unknown */
  char *message;
  char *remedy; /* NULL: none to give */
} PlumbProblem;

PlumbProblem *plumb_problem_new (const char *key,
                                 const char *value,
                                 const char *file,
                                 guint line,
                                 const char *message,
                                 const char *remedy);
void plumb_problem_free (PlumbProblem *problem);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbProblem, plumb_problem_free)

/* A list of problems owns them. */
GPtrArray *plumb_problems_new (void);
void plumb_problems_add (GPtrArray *problems,
                         const char *key,
                         const char *value,
                         const char *file,
                         guint line,
                         const char *remedy,
                         const char *format,
                         ...) G_GNUC_PRINTF (7, 8);
/* An error as a problem, of the setting that its message begins with, if it does. */
void plumb_problems_add_error (GPtrArray *problems, const GError *error);
/* "file:line: key = value: message (remedy)", one a line. */
char *plumb_problems_to_text (GPtrArray *problems);
JsonNode *plumb_problems_to_json (GPtrArray *problems); /* {"problems": [...]} */
/* Sets a PLUMB_ERROR_INVALID with all of them; returns FALSE if there was one, TRUE if none. */
gboolean plumb_problems_to_error (GPtrArray *problems, GError **error);

/* The settings of one run: what the user set, over the defaults of the table of fields; and what
 * `auto` was resolved to. Reference counted; not thread-safe while it is being changed. */
typedef struct _PlumbSpec PlumbSpec;

PlumbSpec *plumb_spec_new (void);
PlumbSpec *plumb_spec_ref (PlumbSpec *spec);
void plumb_spec_unref (PlumbSpec *spec);
PlumbSpec *plumb_spec_copy (PlumbSpec *spec); /* without what was resolved */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbSpec, plumb_spec_unref)

/* Reads a spec file over what is set already. Every fault of the text is appended to `problems`.
 * FALSE with `error` only when the file cannot be read at all. Relative paths are meant from the
 * folder of the file and become absolute. */
gboolean
plumb_spec_load_file (PlumbSpec *spec, const char *path, GPtrArray *problems, GError **error);
/* The same from memory; `name` is shown as the file, `folder` (or NULL) completes relative paths.
 */
void plumb_spec_load_data (PlumbSpec *spec,
                           const char *data,
                           gsize length,
                           const char *name,
                           const char *folder,
                           GPtrArray *problems);

/* "--set group.key=value", "reward.NAME.option=value" for options of a reward. Paths are meant from
 * the current folder. */
gboolean plumb_spec_apply_override (PlumbSpec *spec, const char *assignment, GError **error);

/* Sets or clears one value; the text is checked against the field's row. */
gboolean plumb_spec_set (PlumbSpec *spec, const char *key, const char *value, GError **error);
void plumb_spec_unset (PlumbSpec *spec, const char *key);
gboolean plumb_spec_is_set (PlumbSpec *spec, const char *key);

/* Resolves what follows from other settings alone: run.name, algorithm.kl.estimator and the sizes
 * of a new model that were left out. The run resolves the rest, from the model and the machine. */
void plumb_spec_resolve_settings (PlumbSpec *spec);

/* What `auto` (or a missing value) became in this run; kept apart from what is set. */
gboolean plumb_spec_resolve (PlumbSpec *spec, const char *key, const char *value, GError **error);

/* The value in force as text: resolved, else set, else the default; NULL when there is none. */
const char *plumb_spec_get_text (PlumbSpec *spec, const char *key);
/* Typed getters. An unset number is 0, an unset yes/no is no. A value that is still `auto` reads as
 * 0: ask plumb_spec_is_auto() first. The key must be one of the table. */
gint64 plumb_spec_get_integer (PlumbSpec *spec, const char *key);
double plumb_spec_get_real (PlumbSpec *spec, const char *key);
/* Whether a value says that something does not happen: no, 0, off, an empty list, or no value. A choice never does. */
gboolean plumb_spec_is_off (PlumbSpec *spec, const char *key);
gboolean plumb_spec_get_boolean (PlumbSpec *spec, const char *key);
int plumb_spec_get_choice (PlumbSpec *spec, const char *key);  /* index into the field's choices */
char **plumb_spec_get_list (PlumbSpec *spec, const char *key); /* (transfer full), never NULL */
GArray *plumb_spec_get_reals (PlumbSpec *spec, const char *key); /* of double, (transfer full) */
gboolean plumb_spec_is_auto (PlumbSpec *spec, const char *key);
gboolean plumb_spec_has_value (PlumbSpec *spec, const char *key); /* set, resolved or defaulted */
PlumbAlgorithm plumb_spec_algorithm (PlumbSpec *spec);

/* "name:weight" of a list entry: fills weight (1 when absent), returns the name (transfer full). */
char *plumb_spec_split_weight (const char *entry, double *weight);

/* Options of `[reward NAME]`: NULL when unset. */
const char *plumb_spec_get_reward_option (PlumbSpec *spec, const char *name, const char *option);
/* NULL-terminated names of the options that are set, in order (transfer full). */
char **plumb_spec_list_reward_options (PlumbSpec *spec, const char *name);
gboolean plumb_spec_set_reward_option (
    PlumbSpec *spec, const char *name, const char *option, const char *value, GError **error);

/* Where a key was set: file (NULL: not from a file) and line. */
const char *plumb_spec_place (PlumbSpec *spec, const char *key, guint *line);

/* Appends every problem that can be seen from the settings alone: nothing on disk is looked at. */
void plumb_spec_validate (PlumbSpec *spec, GPtrArray *problems);

/* Text of a spec file. run.spec: what is set. resolved.spec: every value of the algorithm, with
 * `# auto` beside a value that was resolved. (transfer full) */
char *plumb_spec_to_text (PlumbSpec *spec);
char *plumb_spec_to_resolved_text (PlumbSpec *spec);
/* A spec to start from: every basic and more field of the algorithm with its help as a comment;
 * fields that are not set are commented out. */
char *plumb_spec_to_commented_text (PlumbSpec *spec);
gboolean plumb_spec_save (PlumbSpec *spec, const char *path, GError **error); /* run.spec */
gboolean plumb_spec_save_resolved (PlumbSpec *spec, const char *path, GError **error);

typedef struct
{
  char *key;
  char *before, *after; /* values in force; NULL: none */
} PlumbSpecChange;

/* Keys whose value in force differs, in the table's order. (transfer full) */
GPtrArray *plumb_spec_diff (PlumbSpec *before, PlumbSpec *after);

G_END_DECLS
