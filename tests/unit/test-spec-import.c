/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines of another trainer become specs. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/spec-import.h"

/* Settings as "key=value", and flags that must be noted. */
typedef struct
{
  const char *line;
  const char *settings[16];
  const char *notes[6];
} Case;

static const Case cases[] = {
  { "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --actor.model_name_or_path /m/base --algo.advantage.estimator "
    "group_norm \\\n --algo.kl.use_loss --actor.eps_clip_low_high 0.2 0.28 --actor.adam.betas 0.9 0.95 "
    "--data.input_template 'User: {}\\nAssistant:' --data.label_key gold --train.max_epochs 2 --ckpt.save_steps -1 "
    "--foo.bar 3 --rollout.batch_size many --actor.lr_scheduler cosine_with_min_lr --algo.kl.target None",
    { "run.algorithm=grpo", "model.policy=/m/base", "algorithm.kl.where=loss", "algorithm.clip_low=0.2",
      "algorithm.clip_high=0.28", "train.betas=0.9,0.95", "data.prompt_template=User: {prompt}\nAssistant:",
      "data.answer_key=gold", "algorithm.epochs=2", "checkpoint.every=0", "train.schedule=cosine_floor" },
    { "--foo.bar 3", "--rollout.batch_size many" } },
  { "deepspeed --module openrlhf.cli.train_kto --pretrain /m --dataset /d.jsonl --label_key good --beta 0.1 --max_epochs 3 "
    "--learning_rate=5e-7 --l2 0.01 --bf16 --zero-stage 2",
    { "run.algorithm=kto", "model.policy=/m", "data.label_key=good", "algorithm.beta=0.1", "schedule.epochs=3",
      "train.learning_rate=5e-7", "train.weight_decay=0.01", "model.precision=bf16" },
    { "--zero_stage 2" } },
  { "train_dpo.py --beta 0.2 --ipo --label_smoothing 0.1 --nll_loss_coef 0.3",
    { "run.algorithm=dpo", "algorithm.beta=0.2", "algorithm.dpo.loss=ipo", "algorithm.dpo.label_smoothing=0.1",
      "algorithm.dpo.nll=0.3" },
    { NULL } },
  { "train_ppo_ray --remote_rm_url reward.py --eps_clip 0.3 --lambd 0.95 --advantage_estimator rloo",
    { "run.algorithm=rloo", "algorithm.clip_low=0.3", "algorithm.clip_high=0.3", "algorithm.lambda=0.95" },
    { "--remote_rm_url reward.py" } },
};

static void
check_setting (PlumbSpec *spec, const char *assignment)
{
  const char *equals = strchr (assignment, '=');
  g_autofree char *key = g_strndup (assignment, equals - assignment);
  const char *value = plumb_spec_get_text (spec, key);

  if (!plumb_spec_is_set (spec, key) || g_strcmp0 (value, equals + 1) != 0)
    g_error ("%s is \"%s\" where \"%s\" is right", key, value, equals + 1);
}

static gboolean
is_noted (GPtrArray *notes, const char *flag)
{
  for (guint i = 0; i < notes->len; i++)
    {
      const PlumbImportNote *note = g_ptr_array_index (notes, i);

      g_assert_cmpuint (strlen (note->reason), >, 5);
      if (g_str_equal (note->flag, flag))
        return TRUE;
    }
  return FALSE;
}

static void
test_lines (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_import_note_free);
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbSpec) spec = plumb_spec_import_openrlhf (cases[i].line, notes, &error);
      guint n = 0;

      g_assert_no_error (error);
      for (int k = 0; cases[i].settings[k] != NULL; k++)
        check_setting (spec, cases[i].settings[k]);
      for (; cases[i].notes[n] != NULL; n++)
        if (!is_noted (notes, cases[i].notes[n]))
          g_error ("%s is not noted", cases[i].notes[n]);
      g_assert_cmpuint (notes->len, ==, n);
      /* What was made can be written and read again. */
      g_autofree char *text = plumb_spec_to_text (spec);
      g_autoptr (PlumbSpec) again = plumb_spec_new ();
      g_autoptr (GPtrArray) problems = plumb_problems_new ();
      plumb_spec_load_data (again, text, strlen (text), "again", NULL, problems);
      g_assert_cmpuint (problems->len, ==, 0);
      for (int k = 0; cases[i].settings[k] != NULL; k++)
        check_setting (again, cases[i].settings[k]);
    }
}

static void
test_faults (void)
{
  static const char *const lines[] = { "", "python3 train.py", "--a 'open", "\xff --a" };

  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_import_note_free);
      g_autoptr (GError) error = NULL;

      g_assert_null (plumb_spec_import_openrlhf (lines[i], notes, &error));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/spec-import/lines", test_lines);
  g_test_add_func ("/spec-import/faults", test_faults);
  return g_test_run ();
}
