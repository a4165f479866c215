/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "engine/core/spec.h"

G_BEGIN_DECLS

/* One sub-command: gets its own arguments (argv[0] is its name) and returns the exit code; with
 * `error` set, main prints it and the code follows from it. */
typedef int (*PlumbCommandMain) (int argc, char **argv, GError **error);

typedef struct
{
  const char *name;
  PlumbCommandMain main;
  const char *summary; /* translatable */
} PlumbCommand;

int plumb_cmd_spec (int argc, char **argv, GError **error);
int plumb_cmd_validate (int argc, char **argv, GError **error);
int plumb_cmd_plan (int argc, char **argv, GError **error);
int plumb_cmd_preview (int argc, char **argv, GError **error);
int plumb_cmd_import (int argc, char **argv, GError **error);
int plumb_cmd_eval (int argc, char **argv, GError **error);
int plumb_cmd_status (int argc, char **argv, GError **error);
int plumb_cmd_stop (int argc, char **argv, GError **error);
int plumb_cmd_telemetry (int argc, char **argv, GError **error);
int plumb_cmd_tokenize (int argc, char **argv, GError **error);
int plumb_cmd_detokenize (int argc, char **argv, GError **error);
int plumb_cmd_render (int argc, char **argv, GError **error);
int plumb_cmd_score (int argc, char **argv, GError **error);
int plumb_cmd_run (int argc, char **argv, GError **error);
int plumb_cmd_export (int argc, char **argv, GError **error);
int plumb_cmd_generate (int argc, char **argv, GError **error);
int plumb_cmd_logprobs (int argc, char **argv, GError **error);
int plumb_cmd_verify (int argc, char **argv, GError **error);
int plumb_cmd_devices (int argc, char **argv, GError **error);
int plumb_cmd_bench (int argc, char **argv, GError **error);
int plumb_cmd_worker (int argc, char **argv, GError **error);

/* Parses the options of a sub-command and checks that `least` to `most` arguments are left in argv.
 * `synopsis` names them, like "SPEC". */
gboolean plumb_command_parse (int *argc, char ***argv, const GOptionEntry *options,
                              const char *synopsis, const char *summary, int least, int most,
                              GError **error);

/* Prints a JSON value and a newline; `pretty` with indentation. */
void plumb_command_print_json (JsonNode *node, gboolean pretty);

/* Reads a spec file, applies the --set assignments (NULL: none) and checks the settings against each other; what
 * is wrong is appended to `problems`. NULL with an error when the file cannot be read at all. */
PlumbSpec *plumb_command_load_spec (const char *path, char **assignments, GPtrArray *problems,
                                    GError **error);
/* The same for a command that needs a sound one: NULL without an error where the problems were printed. */
PlumbSpec *plumb_command_load_sound_spec (const char *path, char **assignments, GError **error);

G_END_DECLS
