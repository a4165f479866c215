/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a run directory as the engine does, with made-up numbers: for looking at the window, for
 * its tests and for its benchmark. With --live it goes on writing, holds the lock and obeys SIGINT.
 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <glib-unix.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/core/metrics.h"
#include "engine/core/presets.h"
#include "engine/core/run-dir.h"

static int points = 200;
static int n_metrics = 0;
static double live = 0;
static double rate = 4;
static double pace = 1.0;
static int resume_from = -1;
static gboolean registered = FALSE;
static gboolean no_samples = FALSE;
static char *ending = NULL;
static char *preset = NULL;
static char *shown_name = NULL;
static char *spec_path = NULL;

static const GOptionEntry options[] = {
  { "points", 0, 0, G_OPTION_ARG_INT, &points, "steps written at once", "N" },
  { "metrics", 0, 0, G_OPTION_ARG_INT, &n_metrics, "only so many metrics (0: all)", "N" },
  { "live", 0, 0, G_OPTION_ARG_DOUBLE, &live, "then go on for so many seconds", "SECONDS" },
  { "rate", 0, 0, G_OPTION_ARG_DOUBLE, &rate, "steps per second while live", "N" },
  { "pace", 0, 0, G_OPTION_ARG_DOUBLE, &pace, "seconds that a step claims to take", "SECONDS" },
  { "resume-from", 0, 0, G_OPTION_ARG_INT, &resume_from, "a second attempt from this step on",
    "STEP" },
  { "register", 0, 0, G_OPTION_ARG_NONE, &registered, "enter it in the registry of runs", NULL },
  { "no-samples", 0, 0, G_OPTION_ARG_NONE, &no_samples, "keep no completions", NULL },
  { "ending", 0, 0, G_OPTION_ARG_STRING, &ending, "finished, failed, stopped or none", "OUTCOME" },
  { "preset", 0, 0, G_OPTION_ARG_STRING, &preset, "preset of its spec", "NAME" },
  { "spec", 0, 0, G_OPTION_ARG_FILENAME, &spec_path, "its spec, instead of a preset", "FILE" },
  { "name", 0, 0, G_OPTION_ARG_STRING, &shown_name, "its shown name", "NAME" },
  { NULL },
};

static const char *const metrics[] = {
  "reward/mean",
  "reward/std",
  "reward/part/number",
  "reward/part/length",
  "reward/flat_groups",
  "length/response_mean",
  "length/response_p95",
  "length/truncated",
  "policy/entropy",
  "policy/grad_norm",
  "loss/policy",
  "throughput/total",
  "throughput/total_of_limit",
  "time/generate",
  "time/score",
  "time/train",
  "time/sync",
  "time/idle",
  "policy/clip_low",
  "policy/clip_high",
  "policy/logprob_gap_max",
  "throughput/rollout",
  "throughput/train",
  "memory/host",
  "progress/tokens",
  "policy/learning_rate",
};

typedef struct
{
  PlumbTelemetry *telemetry;
  PlumbRunStatus *status;
  GRand *random;
  FILE *log;
  const char *run;
  int total;
  gboolean interrupted;
} Writer;

static double
noise (Writer *self)
{
  return g_rand_double (self->random) + g_rand_double (self->random) + g_rand_double (self->random)
         - 1.5;
}

/* Curves of the shapes that a run has: a reward that rises, an entropy that falls, and so on. */
static double
made_up (Writer *self, const char *metric, int step)
{
  double share = (double)step / MAX (self->total, 1);
  double rise = 0.45 + 0.5 * (1 - exp (-4 * share));

  if (g_str_equal (metric, "reward/mean") || g_str_equal (metric, "reward/part/number"))
    return CLAMP (rise + 0.05 * noise (self), 0, 1);
  if (g_str_equal (metric, "reward/std"))
    return sqrt (MAX (0, rise * (1 - rise))) + 0.01 * noise (self);
  if (g_str_equal (metric, "reward/part/length"))
    return -0.1 * share + 0.01 * noise (self);
  if (g_str_equal (metric, "reward/flat_groups") || g_str_equal (metric, "length/truncated"))
    return CLAMP (0.1 + 0.5 * share + 0.05 * noise (self), 0, 1);
  if (g_str_has_prefix (metric, "length/"))
    return (g_str_has_suffix (metric, "p95") ? 6 : 4) - share + 0.2 * noise (self);
  if (g_str_equal (metric, "policy/entropy"))
    return 0.6 * exp (-3 * share) + 0.02 + 0.01 * fabs (noise (self));
  if (g_str_equal (metric, "policy/grad_norm"))
    return 0.5 + 0.2 * noise (self) * noise (self) + (step % 97 == 50 ? 4 : 0);
  if (g_str_equal (metric, "loss/policy"))
    return step == 60 ? NAN : 0.002 * noise (self);
  if (g_str_has_suffix (metric, "_of_limit"))
    return 0.55 + 0.03 * noise (self);
  if (g_str_has_prefix (metric, "throughput/"))
    return 12100 + 400 * noise (self);
  if (g_str_has_prefix (metric, "time/"))
    return 0.1 * (1 + strlen (metric) % 5) + 0.01 * fabs (noise (self));
  if (g_str_has_prefix (metric, "policy/clip"))
    return 0.02 + 0.01 * fabs (noise (self));
  if (g_str_equal (metric, "memory/host"))
    return 4e8 + 1e6 * step / (1.0 + step / 100.0);
  if (g_str_equal (metric, "progress/tokens"))
    return 12000.0 * step;
  return 1e-4 * (1 + fabs (noise (self)));
}

static void
write_samples (Writer *self, int step)
{
  for (int prompt = 0; prompt < 8; prompt++)
    {
      int a = g_rand_int_range (self->random, 10, 100),
          b = g_rand_int_range (self->random, 10, 100);

      for (int k = 0; k < 8; k++)
        {
          PlumbSample *sample = plumb_sample_new ();
          gboolean right = g_rand_double (self->random) < made_up (self, "reward/mean", step);
          gint32 ids[6] = { '0', '0', '0', '\n', 257, 0 };

          sample->step = step;
          sample->attempt = plumb_telemetry_attempt (self->telemetry);
          sample->prompt = step * 8 + prompt;
          sample->sample = k;
          sample->prompt_text = g_strdup_printf ("%d+%d=", a, b);
          sample->response_text = g_strdup_printf (
              "%d\n", right ? a + b : a + b + g_rand_int_range (self->random, 1, 20));
          sample->answer = g_strdup_printf ("%d", a + b);
          sample->failed = prompt == 3 && k == 7;
          sample->reason = sample->failed ? g_strdup ("the verifier gave no answer in 30 s") : NULL;
          sample->reward = right ? 1 : 0;
          sample->advantage = right ? 0.9 : -1.1;
          sample->finish = g_strdup (k == 5 ? "length" : "eos");
          sample->policy_version = step;
          sample->response_ids = g_bytes_new (ids, 5 * sizeof (gint32));
          plumb_telemetry_sample (self->telemetry, sample);
        }
    }
}

/* The same prompt at each step, as in an evaluation. */
static void
write_eval_sample (Writer *self, int step)
{
  PlumbSample *sample = plumb_sample_new ();

  sample->step = step;
  sample->attempt = plumb_telemetry_attempt (self->telemetry);
  sample->eval = TRUE;
  sample->set = g_strdup ("arithmetic");
  sample->prompt_text = g_strdup ("What is 12 + 34?");
  sample->response_text
      = g_strdup_printf ("Twelve and thirty-four make %d.", 40 + MIN (step / 5, 6));
  sample->answer = g_strdup ("46");
  sample->reward = step >= 30 ? 1 : 0;
  sample->advantage = NAN;
  sample->finish = g_strdup ("eos");
  sample->policy_version = step;
  plumb_telemetry_sample (self->telemetry, sample);
}

static void
write_phases (Writer *self, int step, double start)
{
  static const struct
  {
    const char *name;
    double from, to;
  } phases[] = {
    { "generate", 0, 0.5 },  { "score", 0.5, 0.55 }, { "logprob", 0.55, 0.65 },
    { "train", 0.65, 0.95 }, { "sync", 0.95, 0.97 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (phases); i++)
    plumb_telemetry_phase (self->telemetry, "worker 0", phases[i].name, step,
                           start + phases[i].from * pace, start + phases[i].to * pace);
}

static void
write_step (Writer *self, int step)
{
  guint n = n_metrics > 0 ? MIN ((guint)n_metrics, G_N_ELEMENTS (metrics)) : G_N_ELEMENTS (metrics);

  for (guint i = 0; i < n; i++)
    plumb_telemetry_point (self->telemetry, metrics[i], step, made_up (self, metrics[i], step));
  if (step % 25 == 0 && n == G_N_ELEMENTS (metrics))
    plumb_telemetry_point (self->telemetry, "eval/arithmetic/pass1", step,
                           CLAMP (made_up (self, "reward/mean", step) + 0.02, 0, 1));
  if (step % 50 == 0 && points < 5000)
    plumb_telemetry_event (self->telemetry, PLUMB_EVENT_INFO, "checkpoint", step,
                           "checkpoint of step %d written and verified", step);
  if (step == 120 && points < 5000)
    plumb_telemetry_event (
        self->telemetry, PLUMB_EVENT_WARNING, "length", step,
        "34 %% of the responses are cut at the limit: raise rollout.max_new_tokens");
  if (!no_samples && step % 5 == 0 && points < 5000)
    {
      write_samples (self, step);
      write_eval_sample (self, step);
    }
  if (self->log != NULL && points < 5000)
    {
      fprintf (self->log, "[controller] step %d: reward %.3f, entropy %.3f, 12.1k tok/s\n", step,
               made_up (self, "reward/mean", step), made_up (self, "policy/entropy", step));
      fflush (self->log);
    }
}

static void
update_status (Writer *self, int step)
{
  PlumbRunStatus *status = self->status;

  status->step = step;
  status->updated = plumb_telemetry_now (self->telemetry);
  status->progressed = status->updated;
  status->eta = (self->total - step) * pace;
  status->tokens_per_second = 12100;
  plumb_run_status_write (self->run, status, NULL);
}

static gboolean
interrupt_cb (gpointer data)
{
  ((Writer *)data)->interrupted = TRUE;
  return G_SOURCE_CONTINUE;
}

static int
write_live (Writer *self, int step)
{
  gint64 end = g_get_monotonic_time () + live * G_USEC_PER_SEC;

  while (g_get_monotonic_time () < end && !self->interrupted
         && !plumb_run_stop_requested (self->run))
    {
      double start = plumb_telemetry_now (self->telemetry);

      g_usleep (G_USEC_PER_SEC / rate);
      pace = plumb_telemetry_now (self->telemetry) - start;
      write_step (self, step);
      write_phases (self, step, start);
      update_status (self, step);
      step++;
      while (g_main_context_iteration (NULL, FALSE))
        ;
    }
  return step;
}

static PlumbSpec *
make_spec (GError **error)
{
  g_autoptr (PlumbSpec) spec = NULL;
  g_autoptr (GPtrArray) problems = plumb_problems_new ();

  if (spec_path == NULL)
    return plumb_preset_load (preset != NULL ? preset : "arithmetic", error);
  spec = plumb_spec_new ();
  if (!plumb_spec_load_file (spec, spec_path, problems, error))
    return NULL;
  return g_steal_pointer (&spec);
}

static gboolean
prepare (Writer *self, GError **error)
{
  g_autofree char *spec_file = g_build_filename (self->run, PLUMB_RUN_SPEC, NULL);
  g_autofree char *database = g_build_filename (self->run, PLUMB_RUN_TELEMETRY, NULL);
  g_autofree char *samples = g_build_filename (self->run, PLUMB_RUN_SAMPLES, NULL);
  g_autofree char *log = g_build_filename (self->run, PLUMB_RUN_LOG, NULL);
  g_autoptr (PlumbSpec) spec = make_spec (error);

  if (spec == NULL || !plumb_run_dir_create (self->run, error)
      || !plumb_spec_save (spec, spec_file, error))
    return FALSE;
  self->telemetry = plumb_telemetry_open (database, no_samples ? NULL : samples, 0, error);
  if (self->telemetry == NULL)
    return FALSE;
  self->log = fopen (log, "w");
  self->status = plumb_run_status_new ();
  self->status->id = g_uuid_string_random ();
  self->status->name
      = g_strdup (shown_name != NULL ? shown_name : plumb_spec_get_text (spec, "run.name"));
  self->status->algorithm = g_strdup (plumb_algorithm_name (plumb_spec_algorithm (spec)));
  self->status->database = g_strdup (database);
  self->status->samples = g_strdup (samples);
  self->status->phase = g_strdup ("train");
  self->status->total_steps = self->total;
  return plumb_run_status_set_self (self->status, error)
         && (!registered || plumb_run_register (self->run, self->status->id, error));
}

static gboolean
end (Writer *self, int step, GError **error)
{
  PlumbOutcome outcome = self->interrupted || plumb_run_stop_requested (self->run)
                             ? PLUMB_OUTCOME_STOPPED
                             : plumb_outcome_from_name (ending != NULL ? ending : "finished");
  const char *message
      = outcome == PLUMB_OUTCOME_FAILED ? "the loss was not finite in 4 steps in a row" : NULL;

  if (g_strcmp0 (ending, "none") == 0 && outcome != PLUMB_OUTCOME_STOPPED)
    return plumb_telemetry_flush (self->telemetry, error);
  self->status->outcome = outcome;
  self->status->exit_code = outcome == PLUMB_OUTCOME_FAILED ? 5 : 0;
  self->status->message = g_strdup (message);
  return plumb_telemetry_end_attempt (self->telemetry, outcome, self->status->exit_code, step,
                                      message, error)
         && plumb_run_status_write (self->run, self->status, error);
}

static gboolean
write_run (Writer *self, GError **error)
{
  int step, lock;
  double start;

  if (!prepare (self, error))
    return FALSE;
  lock = plumb_run_lock (self->run, error);
  if (lock < 0 || plumb_telemetry_begin_attempt (self->telemetry, 0, error) < 0)
    return FALSE;
  start = plumb_telemetry_now (self->telemetry);
  for (step = 1; step <= points; step++)
    {
      write_step (self, step);
      if (points < 5000)
        write_phases (self, step, start + (step - 1) * pace);
      if (step % 500 == 0 && !plumb_telemetry_flush (self->telemetry, error))
        return FALSE;
    }
  if (resume_from >= 0)
    {
      plumb_telemetry_end_attempt (self->telemetry, PLUMB_OUTCOME_STOPPED, 0, step - 1, NULL, NULL);
      if (plumb_telemetry_begin_attempt (self->telemetry, resume_from, error) < 0)
        return FALSE;
      for (step = resume_from; step <= points + 40; step++)
        write_step (self, step);
    }
  update_status (self, step - 1);
  step = write_live (self, step);
  return end (self, step - 1, error) && plumb_telemetry_close (self->telemetry, error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new ("DIRECTORY");
  g_autoptr (GError) error = NULL;
  g_autofree char *run = NULL;
  Writer writer = { 0 };

  g_option_context_add_main_entries (context, options, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc != 2)
    {
      g_printerr ("make-run: %s\n", error != NULL ? error->message : "name one directory");
      return 2;
    }
  run = g_canonicalize_filename (argv[1], NULL);
  writer.run = run;
  writer.random = g_rand_new_with_seed (42);
  writer.total = points + (int)(live * rate);
  g_unix_signal_add (SIGINT, interrupt_cb, &writer);
  if (!write_run (&writer, &error))
    {
      g_printerr ("make-run: %s\n", error->message);
      return 5;
    }
  return 0;
}
