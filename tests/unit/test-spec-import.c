/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines and files of other trainers become specs. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/spec-import.h"

/* Settings as "key=value", and flags that must be noted. */
typedef struct
{
  const char *line;
  const char *settings[24];
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
  { "train_ppo_ray --train.async_enable --train.partial_rollout_enable --train.async_queue_size 2",
    { "rollout.async=yes", "rollout.partial=yes", "rollout.max_staleness=2" },
    { NULL } },
  /* TRL: GRPO is recognised by its own settings; what it takes for granted is written. */
  { "# an experiment\nmodel_name_or_path: /m/base\ndataset_name: /d/train.jsonl\nlearning_rate: 2.0e-6\nadam_beta2: 0.95\n"
    "per_device_train_batch_size: 16\ngradient_accumulation_steps: 4\nnum_generations: 8\nmax_completion_length: 512\n"
    "epsilon: 0.2\nepsilon_high: 0.28\nloss_type: grpo\nscale_rewards: group\nimportance_sampling_level: sequence\n"
    "bf16: true\nfp16: false\nseed: 7\nmax_steps: -1\nref_model: null\nwarmup_steps: 20\nlr_scheduler_type: cosine\n",
    { "run.algorithm=grpo", "model.policy=/m/base", "data.train=/d/train.jsonl", "train.learning_rate=2.0e-6",
      "train.betas=0.9,0.95", "train.batch=64", "rollout.prompts_per_step=8", "rollout.samples=8",
      "rollout.max_new_tokens=512", "algorithm.clip_low=0.2", "algorithm.clip_high=0.28", "algorithm.aggregate=sequence",
      "algorithm.policy_loss=gspo", "algorithm.kl.coefficient=0", "algorithm.kl.where=loss", "model.precision=bf16",
      "train.warmup=20", "train.schedule=cosine" },
    { "fp16: false", "per_device_train_batch_size: 16" } },
  { "scale_rewards: false\nloss_type: dr_grpo\nnum_generations: 4\nbeta: 0.04\n",
    { "run.algorithm=dr_grpo", "algorithm.aggregate=constant", "algorithm.kl.coefficient=0.04", "algorithm.kl.estimator=k3" },
    { NULL } },
  { "model_name_or_path: /m\nloss_type: ipo\nbeta: 0.2\nrpo_alpha: 1.0\ndataset_name: [/a.jsonl, /b.jsonl]\nuse_peft: true\n",
    { "run.algorithm=dpo", "algorithm.dpo.loss=ipo_mean", "algorithm.beta=0.2", "algorithm.dpo.nll=1.0",
      "data.train=/a.jsonl,/b.jsonl" },
    { "use_peft: true" } },
  { "desirable_weight: 1.0\nundesirable_weight: 1.5\nbeta: 0.1\n",
    { "run.algorithm=kto", "algorithm.kto.undesirable=1.5", "algorithm.beta=0.1" },
    { NULL } },
  { "model_name_or_path: /m\nlearning_rate: 1e-5\npacking: true\nnum_train_epochs: 3\n",
    { "run.algorithm=sft", "train.learning_rate=1e-5", "schedule.epochs=3", "train.schedule=linear" },
    { "packing: true" } },
  /* verl, as it is typed and as a file. */
  { "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\\n data.train_files=\"['/d/a.parquet','/d/b.parquet']\" "
    "data.train_batch_size=512 data.max_response_length=1024 +data.foo=1 actor_rollout_ref.model.path=/m "
    "actor_rollout_ref.actor.optim.lr=1e-6 actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.rollout.n=5 "
    "actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.actor.kl_loss_coef=0.002 "
    "actor_rollout_ref.actor.kl_loss_type=low_var_kl trainer.save_freq=-1 trainer.test_freq=5 trainer.total_epochs=15",
    { "run.algorithm=grpo", "data.train=/d/a.parquet,/d/b.parquet", "rollout.prompts_per_step=512",
      "rollout.max_new_tokens=1024", "model.policy=/m", "train.learning_rate=1e-6", "train.batch=640", "rollout.samples=5",
      "algorithm.kl.where=loss", "algorithm.kl.coefficient=0.002", "algorithm.kl.estimator=k3", "checkpoint.every=0",
      "eval.every=5", "schedule.epochs=15", "algorithm.dual_clip=3", "algorithm.aggregate=token" },
    { "+data.foo=1", "algorithm.adv_estimator=grpo" } },
  { "algorithm:\n  adv_estimator: gae\n  use_kl_in_reward: true\n  kl_ctrl: {type: adaptive, kl_coef: 0.01, target_kl: 0.2}\n"
    "data:\n  train_files: /d/a.parquet\nactor_rollout_ref:\n  model: {path: /m}\n  actor:\n    clip_ratio: 0.3\n"
    "    clip_ratio_c: 4.0\n    loss_agg_mode: seq-mean-token-mean\n    optim: {lr_warmup_steps: -1, lr_warmup_steps_ratio: 0.1}\n"
    "reward_model:\n  enable: true\n  model: {path: /rm}\n",
    { "run.algorithm=ppo", "algorithm.kl.where=reward", "algorithm.kl.coefficient=0.01", "algorithm.kl.estimator=k1",
      "algorithm.kl.target=0.2", "algorithm.clip_low=0.3", "algorithm.clip_high=0.3", "algorithm.dual_clip=4.0",
      "algorithm.aggregate=sequence", "train.warmup=0.1", "reward.functions=model", "model.reward=/rm" },
    { NULL } },
};

static void
check_setting (PlumbSpec *spec, const char *assignment)
{
  const char *equals = strchr (assignment, '=');
  g_autofree char *key = g_strndup (assignment, equals - assignment);
  g_auto (GStrv) parts = g_strsplit (plumb_spec_get_text (spec, key) != NULL ? plumb_spec_get_text (spec, key) : "", ", ", -1);
  g_autofree char *value = g_strjoinv (",", parts); /* however a list is spaced */

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
      g_autoptr (PlumbSpec) spec = plumb_spec_import (cases[i].line, NULL, notes, &error);
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
  static const char *const lines[] = {
    "", "python3 train.py", "--a 'open", "\xff --a", "a: [1, 2", "- a\n- b\n", "a: {b: {", "\xff: 1", "verl.trainer x=1",
    /* Aliases of aliases: a thousand million scalars, if they were followed. */
    "a: &a {x: 1, y: 2, z: 3, u: 4}\nb: &b {x: *a, y: *a, z: *a, u: *a}\nc: &c {x: *b, y: *b, z: *b, u: *b}\n"
    "d: &d {x: *c, y: *c, z: *c, u: *c}\ne: &e {x: *d, y: *d, z: *d, u: *d}\nf: &f {x: *e, y: *e, z: *e, u: *e}\n"
    "g: &g {x: *f, y: *f, z: *f, u: *f}\nh: {x: *g, y: *g, z: *g, u: *g}\n",
    "a: &a {b: *a}\n",
  };

  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_import_note_free);
      g_autoptr (GError) error = NULL;

      if (plumb_spec_import (lines[i], NULL, notes, &error) != NULL)
        g_error ("\"%s\" was taken over", lines[i]);
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
    }
}

/* A TRL file does not name its trainer; the caller may. */
static void
test_named (void)
{
  g_autoptr (GPtrArray) notes = g_ptr_array_new_with_free_func ((GDestroyNotify)plumb_import_note_free);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbSpec) spec = plumb_spec_import ("beta: 0.3\n", "orpo", notes, &error);

  g_assert_no_error (error);
  g_assert_cmpint (plumb_spec_algorithm (spec), ==, PLUMB_ALGORITHM_ORPO);
  check_setting (spec, "algorithm.beta=0.3");
  g_assert_null (plumb_spec_import ("beta: 0.3\n", "orpho", notes, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/spec-import/lines", test_lines);
  g_test_add_func ("/spec-import/named", test_named);
  g_test_add_func ("/spec-import/faults", test_faults);
  return g_test_run ();
}
