/* SPDX-License-Identifier: Apache-2.0 */

/* What keeps a run truthful while it works: heartbeat, phases, signals. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <signal.h>
#include <stdlib.h>

#include "engine/run/run-private.h"

#define STATE_INTERVAL (2 * G_USEC_PER_SEC)
#define DISK_INTERVAL (60 * G_USEC_PER_SEC)
#define PHASES_KEPT 64
#define SILENCE_SECONDS 60.0

static volatile sig_atomic_t signals;

static void
count_signal (int number)
{
  signals++;
}

void
plumb_run_install_signals (void)
{
  struct sigaction action = { .sa_handler = count_signal };
  sigemptyset (&action.sa_mask);
  sigaction (SIGINT, &action, NULL);
  sigaction (SIGTERM, &action, NULL);
  signal (SIGPIPE, SIG_IGN);
}

gboolean
plumb_run_should_stop (PlumbRun *run)
{
  return signals > 0 || plumb_run_stop_requested (run->dir);
}

static int
compare_doubles (gconstpointer a, gconstpointer b)
{
  double left = *(const double *) a, right = *(const double *) b;
  return (left > right) - (left < right);
}

static double
median_phase (PlumbRun *run)
{
  guint n = run->phase_seconds->len;
  if (n == 0)
    return 0;
  g_autofree double *sorted = g_memdup2 (run->phase_seconds->data, n * sizeof (double));
  qsort (sorted, n, sizeof (double), compare_doubles);
  return sorted[n / 2];
}

void
plumb_run_begin_phase (PlumbRun *run, const char *name)
{
  plumb_run_end_phase (run);
  run->phase = g_strdup (name);
  run->phase_start = plumb_telemetry_now (run->telemetry);
  g_free (run->status->phase);
  run->status->phase = g_strdup (name);
  run->status->progressed = run->phase_start;
  run->silence_told = FALSE;
  plumb_run_tick (run, 0, 0);
}

void
plumb_run_end_phase (PlumbRun *run)
{
  /* What all workers do together; the rest is done by the first, or for it. */
  static const char *const shared[] = { "load", "generate", "logprob", "train", "idle", NULL };
  if (!run->phase)
    return;
  double end = plumb_telemetry_now (run->telemetry), seconds = end - run->phase_start;
  int workers = run->crew && g_strv_contains (shared, run->phase) ? plumb_crew_size (run->crew) : 1;
  for (int i = 1; i <= workers; i++)
    {
      g_autofree char *worker = g_strdup_printf ("worker %d", i);
      plumb_telemetry_phase (run->telemetry, worker, run->phase, run->position.step, run->phase_start, end);
    }
  if (run->phase_seconds->len >= PHASES_KEPT)
    g_array_remove_index (run->phase_seconds, 0);
  g_array_append_val (run->phase_seconds, seconds);
  double *sum = g_hash_table_lookup (run->phase_sums, run->phase);
  if (sum)
    *sum += seconds;
  else
    g_hash_table_insert (run->phase_sums, g_strdup (run->phase), g_memdup2 (&seconds, sizeof seconds));
  g_clear_pointer (&run->phase, g_free);
}

double
plumb_run_take_phase (PlumbRun *run, const char *name)
{
  const double *sum = g_hash_table_lookup (run->phase_sums, name);
  double seconds = sum ? *sum : 0;
  g_hash_table_remove (run->phase_sums, name);
  return seconds;
}

gboolean
plumb_run_write_state (PlumbRun *run, GError **error)
{
  PlumbRunStatus *status = run->status;
  status->step = run->position.step;
  status->updated = plumb_telemetry_now (run->telemetry);
  status->median_phase = median_phase (run);
  run->last_state = g_get_monotonic_time ();
  return plumb_run_status_write (run->dir, status, error);
}

gboolean
plumb_run_tick (PlumbRun *run, gint64 done, gint64 of)
{
  g_autoptr (GError) error = NULL;
  if (done != run->last_done)
    run->status->progressed = plumb_telemetry_now (run->telemetry);
  run->last_done = done;
  if (g_get_monotonic_time () - run->last_state >= STATE_INTERVAL && !plumb_run_write_state (run, &error))
    g_warning ("%s", error->message);
  gint64 now = g_get_monotonic_time ();
  plumb_hardware_tick (run->hardware, run->telemetry, run->position.step);
  if (now - run->last_disk >= DISK_INTERVAL)
    {
      run->last_disk = now;
      plumb_run_has_room (run);
    }
  guint32 worker = 0;
  double silence = run->crew ? plumb_crew_silence (run->crew, &worker) : 0;
  if (silence > SILENCE_SECONDS && !run->silence_told)
    {
      run->silence_told = TRUE;
      plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "silent-worker", run->position.step,
                             "worker %u has said nothing for %.0f s in phase %s", worker, silence,
                             run->phase ? run->phase : "none");
    }
  return signals < 2;
}
