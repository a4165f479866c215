/* SPDX-License-Identifier: Apache-2.0 */

/* The loop of a run, read from the top: take prompts; generate; score; log-probs; advantages; train; record;
 * checkpoint; evaluate. */

#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/error.h"
#include "engine/model/export.h"
#include "engine/run/ahead.h"
#include "engine/run/prepare.h"
#include "engine/run/run.h"

#define ACCURACY_EVERY 5     /* warm-up steps between two measurements of the accuracy */
#define ACCURACY_PROMPTS 256

static void
showpiece_free (gpointer data)
{
  PlumbShowpiece *piece = data;
  g_free (piece->prompt);
  g_free (piece->answer);
  g_free (piece->before);
  g_free (piece->after);
  g_free (piece);
}

/* Data of the present stage, from where the position says. */
static gboolean
open_cursor (PlumbRun *run, GError **error)
{
  gboolean warmup = plumb_run_is_warmup (run);
  g_clear_pointer (&run->cursor, plumb_data_cursor_free);
  run->cursor_set = warmup ? run->warmup : run->train;
  run->cursor = plumb_data_cursor_new (run->cursor_set);
  run->passed_over = plumb_data_set_passed_over (run->cursor_set);
  if (plumb_data_cursor_seek (run->cursor, run->position.epoch, run->position.row))
    return TRUE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
               "the training data has fewer rows than when the checkpoint was made; it cannot be continued");
  return FALSE;
}

/* Every set of held-out data; position.pass1 is that of the first. Without any, the first rows of the training data. */
static gboolean
measure (PlumbRun *run, int prompts, int samples, double temperature, GError **error)
{
  double first = run->position.pass1, pass1 = first;
  PlumbEvalSet training = { (char *) "train", run->train };
  for (guint i = 0; i < MAX (1, run->evals->len); i++)
    {
      const PlumbEvalSet *eval = run->evals->len ? g_ptr_array_index (run->evals, i) : &training;
      gboolean ok = run->recipe->online
                        ? plumb_run_evaluate (run, eval->set, eval->name, prompts, samples, temperature, &pass1, error)
                        : plumb_run_supervised_evaluate (run, eval->set, eval->name, prompts, &pass1, error);
      if (!ok)
        return FALSE;
      first = i == 0 ? pass1 : first;
    }
  run->position.pass1 = first;
  return TRUE;
}

static GVariant *
stage_body (gboolean keep_moments, const char *policy)
{
  g_autoptr (GVariantDict) body = g_variant_dict_new (NULL);
  g_variant_dict_insert (body, "keep-moments", "b", keep_moments);
  if (policy)
    g_variant_dict_insert (body, "policy", "s", policy);
  return g_variant_dict_end (body);
}

/* Reference and critic of other workers take the policy from a folder. */
static gboolean
tell_stage (PlumbRun *run, gboolean keep_moments, const char *policy, GError **error)
{
  guint32 reference = run->reference_kept ? plumb_crew_worker_of (run->crew, PLUMB_ROLE_REFERENCE) : 0;
  guint32 critic = run->critic_follows && !keep_moments ? plumb_crew_worker_of (run->crew, PLUMB_ROLE_CRITIC) : 0;
  g_autoptr (GPtrArray) requests = plumb_crew_requests_new ();
  if (reference)
    g_ptr_array_add (requests, plumb_crew_request_new (reference, PLUMB_MESSAGE_STAGE, stage_body (keep_moments, policy)));
  if (critic)
    g_ptr_array_add (requests, plumb_crew_request_new (critic, PLUMB_MESSAGE_STAGE, stage_body (keep_moments, policy)));
  return plumb_crew_ask_together (run->crew, requests, error);
}

gboolean
plumb_run_renew_reference (PlumbRun *run, gboolean keep_moments, GError **error)
{
  g_autoptr (GVariant) answer
      = plumb_crew_ask_all (run->crew, PLUMB_MESSAGE_STAGE, stage_body (keep_moments, NULL), error);
  gboolean critic = run->critic_follows && !keep_moments;
  if (!answer || (!run->reference_kept && !critic))
    return answer != NULL;
  g_autofree char *folder = g_build_filename (run->dir, run->reference_kept ? "reference" : "handover", NULL);
  g_autofree char *name = g_strdup_printf ("step-%06" G_GINT64_FORMAT, run->position.step);
  g_autofree char *policy = g_build_filename (folder, name, NULL);
  if (run->reference_kept)
    run->position.reference_step = run->position.step;
  return plumb_run_save_model (run, folder, name, error) && tell_stage (run, keep_moments, policy, error)
         && (run->reference_kept || plumb_remove_tree (folder, error));
}

/* The online stage begins: fresh optimizer, the reference as the policy is now, answers "before". */
static gboolean
enter_online (PlumbRun *run, GError **error)
{
  if (!plumb_run_renew_reference (run, FALSE, error))
    return FALSE;
  run->position.stage = PLUMB_STAGE_ONLINE;
  run->position.stage_step = run->position.updates = 0;
  run->timed_steps = 0;
  run->position.epoch = run->position.row = 0;
  run->status->total_steps = run->position.step + run->steps[PLUMB_STAGE_ONLINE];
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "stage", run->position.step,
                         "reinforcement begins after %" G_GINT64_FORMAT " warm-up steps",
                         run->position.step);
  return open_cursor (run, error) && plumb_run_show (run, FALSE, error);
}

/* Whether the warm-up has done its part: its steps, or the accuracy asked for. */
static gboolean
warmup_is_over (PlumbRun *run, gboolean *over, GError **error)
{
  double target = plumb_spec_get_real (run->spec, "warmup.stop_at_pass1");
  *over = run->position.stage_step >= run->steps[PLUMB_STAGE_SUPERVISED];
  if (target <= 0 || run->position.stage_step % ACCURACY_EVERY != 0)
    return TRUE;
  if (!measure (run, ACCURACY_PROMPTS, 1, plumb_spec_get_real (run->spec, "rollout.temperature"), error))
    return FALSE;
  *over = *over || run->position.pass1 >= target;
  if (*over)
    plumb_progress_say (run->progress, "warm-up ends at step %" G_GINT64_FORMAT " with accuracy %.3f",
                        run->position.step, run->position.pass1);
  return TRUE;
}

static gboolean
is_finished (PlumbRun *run)
{
  if (run->position.stage == PLUMB_STAGE_SUPERVISED)
    return !run->recipe->online && run->position.stage_step >= run->steps[PLUMB_STAGE_SUPERVISED];
  return run->position.stage_step >= run->steps[PLUMB_STAGE_ONLINE];
}

static double
seconds_left (PlumbRun *run)
{
  if (run->step_seconds <= 0 || run->status->total_steps == 0)
    return -1;
  return run->step_average * (double) (run->status->total_steps - run->position.step);
}

/* The mean of the first steps of a stage, without the very first, which warms caches up; later the past is forgotten
 * slowly. */
static void
average_step (PlumbRun *run)
{
  double weight = MAX (0.1, 1.0 / MAX (1, run->timed_steps));
  run->step_average += weight * (run->step_seconds - run->step_average);
  run->timed_steps++;
}

/* A speed, and the share of the devices' limit that it is, where that was measured. */
static char *
speed_to_text (PlumbRun *run)
{
  const PlumbLatest *share = g_hash_table_lookup (run->latest, "throughput/total_of_limit");
  if (!share || share->step != run->position.step)
    return g_strdup_printf ("%.0f tokens/s", run->status->tokens_per_second);
  return g_strdup_printf ("%.0f tokens/s (%.0f %% of the limit)", run->status->tokens_per_second, 100 * share->value);
}

static void
show_progress (PlumbRun *run, gboolean keep)
{
  average_step (run);
  run->status->eta = seconds_left (run);
  plumb_run_point (run, "progress/eta", run->status->eta);
  g_autofree char *accuracy = run->position.pass1 >= 0 ? g_strdup_printf ("  accuracy %.3f", run->position.pass1)
                                                       : g_strdup ("");
  g_autofree char *reward = isnan (run->last_reward) ? g_strdup ("no reward") : g_strdup_printf ("reward %.3f", run->last_reward);
  g_autofree char *speed = speed_to_text (run);
  if (run->position.stage == PLUMB_STAGE_ONLINE)
    plumb_progress_show (run->progress, run->position.step, run->status->total_steps, run->status->eta, keep,
                         "%s%s  %s", reward, accuracy, speed);
  else
    plumb_progress_show (run->progress, run->position.step, run->status->total_steps, run->status->eta, keep,
                         "%s loss %.4f%s  %s",
                         plumb_run_is_warmup (run) ? "warm-up" : plumb_algorithm_name (run->algorithm), run->last_loss, accuracy,
                         speed);
}

static gboolean
evaluate_if_due (PlumbRun *run, GError **error)
{
  gint64 every = plumb_spec_get_integer (run->spec, "eval.every");
  if (plumb_run_is_warmup (run) || every <= 0 || run->position.stage_step % every != 0)
    return TRUE;
  return measure (run, (int) plumb_spec_get_integer (run->spec, "eval.max_prompts"),
                  (int) plumb_spec_get_integer (run->spec, "eval.samples"),
                  plumb_spec_get_real (run->spec, "eval.temperature"), error);
}

/* Telemetry that cannot be written is told once, and does not end the training. */
void
plumb_run_tell_telemetry (PlumbRun *run, const GError *error)
{
  if (!run->telemetry_told)
    plumb_progress_say (run->progress, "warning: %s; the run goes on", error->message);
  run->telemetry_told = TRUE;
}

static void
check_telemetry (PlumbRun *run)
{
  g_autoptr (GError) error = NULL;
  if (!plumb_telemetry_check (run->telemetry, &error))
    plumb_run_tell_telemetry (run, error);
}

/* A reward model carries the mean and deviation of its scores. */
static gboolean
store_statistics (PlumbRun *run, const char *folder, const char *name, GError **error)
{
  double mean, deviation;
  g_autofree char *model = g_build_filename (folder, name, NULL);
  return !run->recipe->scalar
         || (plumb_run_measure_scores (run, &mean, &deviation, error)
             && plumb_model_store_statistics (model, mean, deviation, error));
}

/* The policy as a Hugging Face folder RUN/export/step-NNNNNN. */
static gboolean
export_model (PlumbRun *run, GError **error)
{
  g_autofree char *folder = g_build_filename (run->dir, PLUMB_RUN_EXPORT, NULL);
  g_autofree char *name = g_strdup_printf ("step-%06" G_GINT64_FORMAT, run->position.step);
  if (!plumb_run_save_model (run, folder, name, error) || !store_statistics (run, folder, name, error))
    return FALSE;
  plumb_progress_say (run->progress, "model exported to %s/%s", folder, name);
  return TRUE;
}

/* A checkpoint, and an export of it where each is wanted. */
static gboolean
save_checkpoint (PlumbRun *run, GError **error)
{
  return plumb_run_save_checkpoint (run, error)
         && (g_strcmp0 (plumb_spec_get_text (run->spec, "checkpoint.export"), "every") != 0
             || export_model (run, error));
}

/* Ways of failing that the metrics show, each told once while it lasts. */
static void
tell_findings (PlumbRun *run)
{
  for (const PlumbFinding *finding; (finding = plumb_diagnosis_next (run->diagnosis));)
    {
      plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, finding->kind, run->position.step, "%s; %s",
                             finding->message, finding->remedy);
      plumb_progress_say (run->progress, "step %" G_GINT64_FORMAT ": %s\n  try: %s", run->position.step,
                          finding->message, finding->remedy);
    }
}

/* Rows that turned out to be of no use when they were taken: the first one by one, and how many there are a step. */
static void
tell_late_rows (PlumbRun *run)
{
  PlumbDataSet *set = run->cursor_set;
  g_autoptr (GPtrArray) rows = plumb_data_set_take_late (set);
  gsize passed = plumb_data_set_passed_over (set);
  for (guint i = 0; i < rows->len; i++)
    {
      const PlumbProblem *row = g_ptr_array_index (rows, i);
      plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "data", run->position.step, "%s:%u: %s", row->file,
                             row->line, row->message);
    }
  if (rows->len > 0)
    {
      g_autofree char *text = plumb_problems_to_text (rows);
      plumb_progress_say (run->progress, "rows that are left out:\n%s", text);
    }
  if (plumb_data_set_counts (set)->unchecked > 0)
    plumb_run_point (run, "data/dropped", (double) (passed - run->passed_over));
  run->passed_over = passed;
}

/* All of them, by kind of reason. */
static void
sum_late_rows (PlumbRun *run, PlumbDataSet *set)
{
  g_autofree char *kinds = set ? plumb_data_set_describe_late (set) : NULL;
  if (!kinds)
    return;
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "data", run->position.step,
                         "rows left out while training: %s", kinds);
  plumb_progress_say (run->progress, "rows left out while training: %s", kinds);
}

static gboolean
after_step (PlumbRun *run, GError **error)
{
  gint64 every = plumb_spec_get_integer (run->spec, "checkpoint.every");
  gboolean over = FALSE;
  run->status->progressed = plumb_telemetry_now (run->telemetry);
  tell_late_rows (run);
  if (plumb_run_is_warmup (run))
    {
      if (!warmup_is_over (run, &over, error) || (over && !enter_online (run, error)))
        return FALSE;
    }
  else if (!evaluate_if_due (run, error))
    return FALSE;
  if ((over || (every > 0 && run->position.step % every == 0)) && !save_checkpoint (run, error))
    return FALSE;
  check_telemetry (run);
  tell_findings (run);
  show_progress (run, FALSE);
  return TRUE;
}

/* Nothing is learnt while every reward fails: what there is stays in a checkpoint. */
static gboolean
check_failures (PlumbRun *run, GError **error)
{
  if (run->failed_steps <= plumb_spec_get_integer (run->spec, "reward.failure_limit"))
    return TRUE;
  if (!save_checkpoint (run, error))
    return FALSE;
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_FAILED,
               "no answer of %" G_GINT64_FORMAT " steps in a row has a reward (reward.failure_limit): %s; mend the reward "
               "and continue with --resume", run->failed_steps, run->failure ? run->failure : "no reason was given");
  return FALSE;
}

static gboolean
is_out_of_room (PlumbRun *run)
{
  if (plumb_run_has_room (run))
    return FALSE;
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "disk-full", run->position.step,
                         "after this checkpoint no other might fit on the disk; the run stops with it. Make room and "
                         "continue with --resume");
  plumb_progress_say (run->progress, "the disk has no room for two more checkpoints: the run stops with one");
  return TRUE;
}

/* With dynamic sampling a run may come to its goal before its last step. */
static void
tell_mastered (PlumbRun *run)
{
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_INFO, "mastered", run->position.step,
                         "the answers to nearly all prompts reach algorithm.dynamic_sampling.high: none is left that could teach "
                         "anything, and the run ends here");
  plumb_progress_say (run->progress, "no prompt is left that could teach anything: the run ends at step %" G_GINT64_FORMAT,
                      run->position.step);
}

/* Ends the message of a failure with the phase that it happened in, unless it names it. */
static void
tell_phase (PlumbRun *run, GError **error)
{
  static const char *const phases[][2] = {
    { "generate", "generating" },      { "score", "scoring" },  { "logprob", "computing log-probs" },
    { "train", "training" },           { "sync", "handing over weights" },
    { "checkpoint", "writing a checkpoint" },
  };
  if (!error || !*error || !run->phase || plumb_error_exit_code (*error) == PLUMB_EXIT_INTERRUPTED
      || strstr ((*error)->message, " in phase "))
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (phases); i++)
    if (g_str_equal (run->phase, phases[i][0]))
      {
        char *message = g_strdup_printf ("%s (while %s, after step %" G_GINT64_FORMAT ")", (*error)->message, phases[i][1],
                                         run->last_whole_step);
        g_free ((*error)->message);
        (*error)->message = message;
      }
}

static gboolean
loop (PlumbRun *run, gboolean *stopped, GError **error)
{
  *stopped = FALSE;
  if (!plumb_run_check_room (run, error))
    return FALSE;
  while (!is_finished (run))
    {
      *stopped = plumb_run_should_stop (run) || plumb_run_is_out_of_time (run) || is_out_of_room (run);
      if (*stopped || run->fulfilled)
        break;
      g_autoptr (GError) failure = NULL;
      run->last_whole_step = run->position.step;
      gboolean ok = run->position.stage == PLUMB_STAGE_ONLINE ? plumb_run_online_step (run, &failure)
                                                              : plumb_run_supervised_step (run, &failure);
      if (!ok && run->diverged)
        {
          if (!plumb_run_roll_back (run, failure, error) || !open_cursor (run, error))
            return FALSE;
          continue;
        }
      if (!ok && run->mastered)
        {
          tell_mastered (run);
          break;
        }
      if (!ok)
        g_propagate_error (error, g_steal_pointer (&failure));
      if (!ok || !after_step (run, error) || !check_failures (run, error))
        {
          tell_phase (run, error);
          return FALSE;
        }
    }
  return save_checkpoint (run, error);
}

static void
tell_showpieces (PlumbRun *run)
{
  if (run->showpieces->len == 0)
    return;
  plumb_progress_say (run->progress, "\nanswers before and after the reinforcement:");
  for (guint i = 0; i < run->showpieces->len; i++)
    {
      PlumbShowpiece *piece = g_ptr_array_index (run->showpieces, i);
      g_autofree char *prompt = g_strescape (piece->prompt, "\"\\");
      plumb_progress_say (run->progress, "  %.60s  before: %.40s  after: %.40s%s%s", prompt,
                          piece->before ? piece->before : "(none)", piece->after ? piece->after : "(none)",
                          piece->answer ? "  right: " : "", piece->answer ? piece->answer : "");
    }
}

/* A finished run: answers "after", export. */
static gboolean
conclude (PlumbRun *run, GError **error)
{
  if (run->position.stage == PLUMB_STAGE_ONLINE && !plumb_run_show (run, TRUE, error))
    return FALSE;
  if (g_strcmp0 (plumb_spec_get_text (run->spec, "checkpoint.export"), "end") == 0
      && !export_model (run, error))
    return FALSE;
  tell_showpieces (run);
  return TRUE;
}

static void
report_rows (PlumbRun *run, GPtrArray *reports)
{
  if (reports->len == 0)
    return;
  g_autofree char *text = plumb_problems_to_text (reports);
  plumb_progress_say (run->progress, "rows that are left out or cut:\n%s", text);
  plumb_telemetry_event (run->telemetry, PLUMB_EVENT_WARNING, "data", run->position.step,
                         "%u reports on rows of the data; see the log", reports->len);
}

static void
take_inputs (PlumbRun *run, PlumbRunInputs *in)
{
  run->tokenizer = in->tokenizer;
  run->stop_ids = in->stop_ids;
  run->train = in->train;
  run->evals = in->evals;
  run->eval = in->evals->len ? ((PlumbEvalSet *) g_ptr_array_index (in->evals, 0))->set : NULL;
  run->warmup = in->warmup;
  run->reward = in->reward;
  run->environment = in->environment;
  run->reward_mean = in->reward_mean;
  run->reward_deviation = in->reward_deviation;
  plumb_run_count_steps (in, run->steps);
  run->status->total_steps = run->steps[PLUMB_STAGE_SUPERVISED] + run->steps[PLUMB_STAGE_ONLINE];
  run->position.stage = run->steps[PLUMB_STAGE_SUPERVISED] > 0 ? PLUMB_STAGE_SUPERVISED : PLUMB_STAGE_ONLINE;
}

static gboolean
begin (PlumbRun *run, PlumbRunInputs *in, gint64 from_step, GError **error)
{
  if (!plumb_run_open_ending (run, error) || !plumb_run_inputs_open (in, run->spec, run->dir, error))
    return FALSE;
  if (from_step > 0 && !plumb_run_read_reference_step (run->dir, from_step, &in->reference_step, error))
    return FALSE;
  take_inputs (run, in);
  g_free (run->status->name);
  run->status->name = g_strdup (plumb_spec_get_text (run->spec, "run.name"));
  if (!plumb_run_open_crew (run, in, error))
    return FALSE;
  report_rows (run, in->reports);
  if (from_step > 0)
    {
      g_autofree char *folder = plumb_run_checkpoint_path (run->dir, from_step);
      if (!plumb_run_load_checkpoint (run, from_step, error) || !plumb_run_ahead_load (run, folder, error))
        return FALSE;
      if (run->position.stage == PLUMB_STAGE_ONLINE && run->reference_kept && run->warmup
          && run->position.reference_step == 0)
        {
          g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                       "algorithm.kl.coefficient was 0 when the reinforcement began, so its reference was not kept; "
                       "set model.reference, or the coefficient back to 0");
          return FALSE;
        }
      if (run->position.stage == PLUMB_STAGE_ONLINE)
        run->status->total_steps = run->position.step - run->position.stage_step
                                   + run->steps[PLUMB_STAGE_ONLINE];
      plumb_progress_say (run->progress, "continues from the checkpoint of step %" G_GINT64_FORMAT, from_step);
    }
  if (!open_cursor (run, error))
    return FALSE;
  gboolean fresh_online
      = run->position.stage == PLUMB_STAGE_ONLINE && run->position.step == 0 && !run->alone;
  return !fresh_online || plumb_run_show (run, FALSE, error);
}

static PlumbRun *
run_new (PlumbSpec *spec, const char *dir, gboolean detached)
{
  PlumbRun *run = g_new0 (PlumbRun, 1);
  g_autofree char *log = g_build_filename (dir, PLUMB_RUN_LOG, NULL);
  run->spec = spec;
  run->dir = g_strdup (dir);
  run->lock = -1;
  run->algorithm = plumb_spec_algorithm (spec);
  run->recipe = plumb_recipe (run->algorithm);
  run->position.kl_coefficient = PLUMB_IS_ON (run->algorithm, PLUMB_ON_POLICY)
                                     ? plumb_spec_get_real (spec, "algorithm.kl.coefficient")
                                     : 0;
  run->position.pass1 = -1;
  run->status = plumb_run_status_new ();
  run->progress = plumb_progress_new (detached ? NULL : log);
  run->showpieces = g_ptr_array_new_with_free_func (showpiece_free);
  run->phase_seconds = g_array_new (FALSE, FALSE, sizeof (double));
  run->phase_sums = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  run->hardware = plumb_hardware_new ();
  run->norms = g_array_new (FALSE, FALSE, sizeof (double));
  run->diagnosis = plumb_diagnosis_new ();
  run->latest = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  return run;
}

static void
run_free (PlumbRun *run)
{
  plumb_crew_stop (run->crew);
  plumb_ahead_free (run->ahead);
  plumb_shared_memory_free (run->comm);
  g_clear_pointer (&run->cursor, plumb_data_cursor_free);
  plumb_run_status_free (run->status);
  plumb_progress_free (run->progress);
  g_ptr_array_unref (run->showpieces);
  g_array_unref (run->phase_seconds);
  g_hash_table_unref (run->phase_sums);
  plumb_hardware_free (run->hardware);
  g_array_unref (run->norms);
  g_clear_pointer (&run->stop_rules, g_ptr_array_unref);
  plumb_diagnosis_free (run->diagnosis);
  g_hash_table_unref (run->latest);
  g_free (run->phase);
  g_free (run->failure);
  g_free (run->dir);
  if (run->lock >= 0)
    close (run->lock);
  g_free (run);
}

/* Lock, telemetry, state file, registry: from here on the run is visible. */
static gboolean
appear (PlumbRun *run, gint64 from_step, GError **error)
{
  g_autofree char *database = g_build_filename (run->dir, PLUMB_RUN_TELEMETRY, NULL);
  g_autofree char *samples = g_build_filename (run->dir, PLUMB_RUN_SAMPLES, NULL);
  g_autoptr (PlumbRunStatus) earlier = plumb_run_status_read (run->dir, NULL);
  PlumbRunStatus *status = run->status;
  run->lock = plumb_run_lock (run->dir, error);
  if (run->lock < 0)
    return FALSE;
  plumb_run_clear_stop (run->dir);
  run->telemetry = plumb_telemetry_open (database, samples,
                                         plumb_spec_get_integer (run->spec, "telemetry.max_size"), error);
  if (!run->telemetry)
    return FALSE;
  /* What was recorded up to the checkpoint stays; the first step of this attempt is the next one. */
  status->attempt = plumb_telemetry_begin_attempt (run->telemetry, from_step > 0 ? from_step + 1 : 0, error);
  if (status->attempt < 1 || !plumb_run_status_set_self (status, error))
    return FALSE;
  /* schedule.max_hours counts over all attempts. */
  status->spent = from_step > 0 && earlier ? earlier->spent + MAX (0, earlier->updated - earlier->started) : 0;
  status->id = earlier && earlier->id ? g_strdup (earlier->id) : g_uuid_string_random ();
  status->algorithm = g_strdup (plumb_algorithm_name (run->algorithm));
  status->database = g_steal_pointer (&database);
  status->samples = g_steal_pointer (&samples);
  status->started = status->progressed = plumb_telemetry_now (run->telemetry);
  status->eta = status->tokens_per_second = -1;
  const char *name = plumb_spec_get_text (run->spec, "run.name");
  status->name = g_strdup (name ? name : status->algorithm);
  run->position.step = from_step;
  return plumb_run_write_state (run, error) && plumb_run_register (run->dir, status->id, error);
}

/* Writes the end of the attempt where everybody looks. */
static int
disappear (PlumbRun *run, gboolean stopped, const GError *failure)
{
  g_autoptr (GError) error = NULL;
  int code = plumb_error_exit_code (failure);
  PlumbOutcome outcome = code == PLUMB_EXIT_INTERRUPTED ? PLUMB_OUTCOME_INTERRUPTED
                         : failure                      ? PLUMB_OUTCOME_FAILED
                         : stopped                      ? PLUMB_OUTCOME_STOPPED
                                                        : PLUMB_OUTCOME_FINISHED;
  plumb_run_end_phase (run);
  if (run->crew && plumb_crew_loss (run->crew))
    plumb_telemetry_event (run->telemetry, PLUMB_EVENT_ERROR, "worker-lost", run->position.step, "%s",
                           plumb_crew_loss (run->crew));
  if (failure)
    plumb_telemetry_event (run->telemetry, PLUMB_EVENT_ERROR, "failed", run->position.step, "%s",
                           failure->message);
  run->status->outcome = outcome;
  run->status->exit_code = code;
  g_free (run->status->message);
  run->status->message = failure ? g_strdup (failure->message) : NULL;
  /* The one must not keep the other from being written. */
  if (!plumb_telemetry_end_attempt (run->telemetry, outcome, code, run->position.step,
                                    failure ? failure->message : NULL, &error))
    g_warning ("%s", error->message);
  g_clear_error (&error);
  if (!plumb_run_write_state (run, &error))
    g_warning ("%s", error->message);
  plumb_run_clear_stop (run->dir);
  return code;
}

int
plumb_run_execute (PlumbSpec *spec, const char *dir, gboolean resume, gboolean detached, GError **error)
{
  PlumbRun *run = run_new (spec, dir, detached);
  g_autoptr (GError) failure = NULL;
  g_auto (PlumbRunInputs) inputs = { 0 };
  gint64 from_step = resume ? MAX (0, plumb_run_last_checkpoint (dir)) : 0;
  gboolean stopped = FALSE;
  int code;
  plumb_run_install_signals ();
  if (!appear (run, from_step, &failure))
    {
      code = plumb_error_exit_code (failure);
      plumb_telemetry_close (run->telemetry, NULL);
      run_free (run);
      g_propagate_error (error, g_steal_pointer (&failure));
      return code;
    }
  if (begin (run, &inputs, from_step, &failure) && loop (run, &stopped, &failure) && !stopped)
    conclude (run, &failure);
  sum_late_rows (run, run->warmup);
  sum_late_rows (run, run->train);
  code = disappear (run, stopped, failure);
  if (stopped && !failure)
    plumb_progress_say (run->progress, "stopped at step %" G_GINT64_FORMAT " with a checkpoint",
                        run->position.step);
  g_autoptr (GError) lost = NULL;
  if (!plumb_telemetry_close (run->telemetry, &lost))
    g_warning ("%s", lost->message);
  run_free (run);
  if (failure)
    g_propagate_error (error, g_steal_pointer (&failure));
  return code;
}

static int
compare_lines (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

static void
list_results (PlumbRun *run, GPtrArray *results)
{
  GHashTableIter iter;
  gpointer name, latest;
  g_hash_table_iter_init (&iter, run->latest);
  while (g_hash_table_iter_next (&iter, &name, &latest))
    if (g_str_has_prefix (name, "eval/"))
      g_ptr_array_add (results, g_strdup_printf ("%s %.9g", (char *) name, ((PlumbLatest *) latest)->value));
  g_ptr_array_sort (results, compare_lines);
}

gboolean
plumb_run_evaluate_alone (PlumbSpec *spec, const char *dir, GPtrArray *results, GError **error)
{
  PlumbRun *run = run_new (spec, dir, FALSE);
  g_auto (PlumbRunInputs) inputs = { 0 };
  g_autoptr (GError) failure = NULL;
  run->alone = TRUE;
  plumb_run_install_signals ();
  gboolean appeared = appear (run, 0, &failure);
  if (appeared && begin (run, &inputs, 0, &failure)
      && measure (run, (int) plumb_spec_get_integer (spec, "eval.max_prompts"),
                  (int) plumb_spec_get_integer (spec, "eval.samples"),
                  plumb_spec_get_real (spec, "eval.temperature"), &failure))
    list_results (run, results);
  if (appeared)
    disappear (run, FALSE, failure);
  plumb_telemetry_close (run->telemetry, NULL);
  run_free (run);
  if (!failure)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}
