/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* The real program in a folder of its own: the fixture of the engine's tests. Every path in a command line is
 * relative to that folder. */
typedef struct
{
  char *folder;
  char *out, *err; /* of the last call */
} Engine;

void engine_set_up (Engine *engine, gconstpointer data);
void engine_tear_down (Engine *engine, gconstpointer data);

#define ENGINE_TEST(path, function) \
  g_test_add (path, Engine, NULL, engine_set_up, function, engine_tear_down)

/* Runs `plumbline-engine ARGUMENTS` through a shell and returns its exit code; a death by a signal fails the test.
 * $SPECS and $FIXTURES name the folders of specs and fixtures. */
int engine_call (Engine *engine, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* The same with text on standard input. */
int engine_call_with (Engine *engine, const char *input, const char *arguments);
/* Any line of shell in the folder; $ENGINE is the program. */
int engine_shell (Engine *engine, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Starts the program, its output in FOLDER/started.txt. */
GSubprocess *engine_start (Engine *engine, const char *arguments);
/* Waits for its end, at most two minutes; the exit code, or minus the signal. */
int engine_wait (GSubprocess *process);

/* Waits until a file is there; the end of the process before that fails the test. */
void engine_wait_for_file (Engine *engine, GSubprocess *process, const char *name);
/* Waits until state.json of the run tells this phase. */
void engine_wait_for_phase (Engine *engine, GSubprocess *process, const char *run, const char *phase);

/* Worker processes of a run by its controller: array of gint64, in the order of their numbers. */
GArray *engine_workers (GSubprocess *controller);
GArray *engine_workers_of (const char *controller_id);
/* Waits until all of them are gone. */
void assert_gone (const GArray *pids);
/* Each prompt of the numbers 0 .. n-1 was trained in one step, all of its samples once; later attempts supersede what
 * earlier ones did in the same steps. Returns the number of prompts of all steps. */
int engine_assert_trained_once (Engine *engine, const char *run, int samples, gboolean gaps);

char *engine_path (Engine *engine, const char *name);
char *engine_read (Engine *engine, const char *name);
void engine_write (Engine *engine, const char *name, const char *text);
/* Standard output of the last call as a JSON object; keep the parser. */
JsonObject *engine_json (Engine *engine, JsonParser *parser);

void assert_has (const char *text, const char *part);
/* Two files of the folder hold the same bytes. */
void assert_same_file (Engine *engine, const char *left, const char *right);

/* All points of deterministic metrics of a run: "metric step value" lines, values exact, as the last attempt left
 * them. */
char *engine_metrics (Engine *engine, const char *run);
void assert_same_metrics (Engine *engine, const char *left, const char *right);
/* The values of one metric over all steps: array of double. */
GArray *engine_series (Engine *engine, const char *run, const char *metric);

G_END_DECLS
