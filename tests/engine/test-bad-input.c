/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong input: the message names file, key or line and what to do, the exit code is 3, and nothing is left behind. */
#define G_LOG_DOMAIN "plumbline"

#include "config.h"

#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/engine/harness.h"

static void
refuse (Engine *engine, int code, const char *part, const char *arguments)
{
  int seen = engine_call (engine, "%s", arguments);
  if (seen != code || !strstr (engine->err, part))
    g_error ("%s: exit code %d instead of %d, and \"%s\" is asked for: %s%s", arguments, seen, code, part,
             engine->out, engine->err);
}

static void
refuse_run (Engine *engine, const char *part, const char *settings)
{
  g_autofree char *arguments = g_strconcat ("run --run-dir never ", settings, NULL);
  g_autofree char *path = engine_path (engine, "never");
  refuse (engine, 3, part, arguments);
  if (g_file_test (path, G_FILE_TEST_EXISTS))
    g_error ("%s left %s behind", arguments, path);
}

static void
test_spec (Engine *engine, gconstpointer data)
{
  engine_write (engine, "misspelt.spec", "[run]\nalgorithm = grpo\n\n[rollout]\nsampels = 4\n");
  engine_write (engine, "group.spec", "[rolout]\nsamples = 4\n");
  engine_write (engine, "twice.spec", "[train]\nbatch = 4\nlearning_rate = 1e-3\nbatch = 8\n");
  engine_write (engine, "impossible.spec", "[rollout]\ntemperature = -1\n");
  engine_write (engine, "nan.spec", "[rollout]\ntemperature = nan\n");
  engine_write (engine, "word.spec", "[train]\nbatch = many\n");
  engine_write (engine, "broken.spec", "[train\nbatch = 4\n");
  engine_write (engine, "empty.spec", "");
  refuse_run (engine, "did you mean rollout.samples", "misspelt.spec");
  refuse_run (engine, "misspelt.spec:5", "misspelt.spec");
  refuse_run (engine, "group.spec:1", "group.spec");
  refuse_run (engine, "twice.spec:4", "twice.spec");
  refuse_run (engine, "impossible.spec:2: rollout.temperature", "impossible.spec");
  refuse_run (engine, "nan.spec:2", "nan.spec");
  refuse_run (engine, "word.spec:2: train.batch", "word.spec");
  refuse_run (engine, "broken.spec:1", "broken.spec");
  refuse_run (engine, "model.policy", "empty.spec");
  refuse_run (engine, "nowhere.spec", "nowhere.spec");
  refuse_run (engine, "train.batc", "$SPECS/sft.spec --set train.batc=4");
  refuse_run (engine, "the nearest is 16", "$SPECS/grpo.spec --set rollout.page_tokens=17");
  refuse_run (engine, "nowhere/config.json", "$SPECS/grpo.spec --set model.reference=nowhere");
  refuse_run (engine, "vocabulary", "$SPECS/grpo.spec --set model.reference=$FIXTURES/models/llama");
  refuse (engine, 2, "--set", "run $SPECS/sft.spec --set train.batch");
}

static void
test_data (Engine *engine, gconstpointer data)
{
  engine_write (engine, "empty.jsonl", "");
  engine_write (engine, "blank.txt", "\n\n\n");
  engine_write (engine, "broken.jsonl", "{\"prompt\": \"b\", \n");
  engine_write (engine, "half.jsonl", "{\"prompt\": \"a\", \"answer\": \"1\"}\n{\"prompt\": \"b\", \n");
  refuse_run (engine, "empty.jsonl", "$SPECS/grpo.spec --set data.train=empty.jsonl");
  refuse_run (engine, "blank.txt", "$SPECS/grpo.spec --set data.train=blank.txt");
  refuse_run (engine, "nowhere.jsonl", "$SPECS/grpo.spec --set data.train=nowhere.jsonl");
  refuse_run (engine, "broken.jsonl:1", "$SPECS/grpo.spec --set data.train=broken.jsonl");
  refuse_run (engine, "builtin:none", "$SPECS/grpo.spec --set data.train=builtin:none");
  /* Rows that are sound are used, the others are told. */
  g_assert_cmpint (engine_call (engine, "run $SPECS/grpo.spec --set data.train=half.jsonl --run-dir half"), ==, 0);
  assert_has (engine->out, "half.jsonl:2");
}

/* Rows behind 32 MiB become tokens when they are taken: those that cannot be used are told as events with their place,
 * each once, and summed up by reason at the end. */
static void
test_late_rows (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_shell (engine,
                                 "{ printf '{\"prompt\": \"'; head -c 34000000 /dev/zero | tr '\\0' 1; echo '\", \"response\": \"1\"}';"
                                 "  echo '{\"prompt\": \"1+1=\", \"response\": \"2\"}'; echo '{\"prompt\": \"1+2=\", \"respon';"
                                 "  for i in 1 2 3; do echo '{\"prompt\": \"1+3=1111111111111111111111111111111111111\", \"response\": \"1\"}'; done;"
                                 "  echo '{\"prompt\": \"2+2=\", \"response\": \"4\"}'; } > late.jsonl"), ==, 0);
  if (engine_call (engine, "run $SPECS/sft.spec --set data.train=late.jsonl --set data.shuffle=no --set train.batch=2 "
                   "--set data.prompt_key=prompt --set data.response_key=response --run-dir late") != 0)
    g_error ("%s%s", engine->out, engine->err);
  assert_has (engine->out, "late.jsonl:3: this is no sound JSON");
  assert_has (engine->out, "rows left out while training: 4 x the row is longer than 32 tokens");
  g_assert_cmpint (engine_call (engine, "telemetry late --since 0"), ==, 0);
  assert_has (engine->out, "late.jsonl:1: the row is longer");
  assert_has (engine->out, "late.jsonl:6: the row is longer");
  g_auto (GStrv) told = g_strsplit (engine->out, "late.jsonl:5: the row", -1);
  g_assert_cmpuint (g_strv_length (told), ==, 2); /* six epochs, one event */
  g_autoptr (GArray) dropped = engine_series (engine, "late", "data/dropped");
  g_assert_cmpuint (dropped->len, ==, 6);
  for (guint i = 0; i < dropped->len; i++)
    g_assert_cmpfloat (g_array_index (dropped, double, i), ==, 4);
}

/* A model of the fixtures with a change made by a line of shell inside its folder. */
static void
spoil (Engine *engine, const char *change)
{
  if (engine_shell (engine, "rm -rf model && cp -rL $FIXTURES/models/llama model && chmod -R u+w model && cd model && "
                    "(%s)", change) != 0)
    g_error ("%s: %s", change, engine->err);
}

static const char *const models[][2] = {
  { "rm config.json", "model/config.json" },
  { "rm model.safetensors", "model/model.safetensors" },
  { "head -c 5 model.safetensors > x; mv x model.safetensors", "truncated" },
  { "head -c 20000 model.safetensors > x; mv x model.safetensors", "truncated" },
  { "printf x >> model.safetensors", "belong to none" },
  { "printf '\\377\\377\\377\\377\\377\\377\\377\\177' | dd of=model.safetensors conv=notrunc status=none", "truncated" },
  { "sed -i 's/\"dtype\":\"F32\"/\"dtype\":\"F8X\"/' model.safetensors", "dtype F8X" },
  { "sed -i 's/\"shape\":\\[64\\]/\"shape\":[-4]/' model.safetensors", "shape" },
  { "sed -i 's/\"shape\":\\[64\\]/\"shape\":[65]/' model.safetensors", "offsets" },
  { "sed -i 's/\"data_offsets\":\\[0,/\"data_offsets\":[4,/' model.safetensors", "do not fit" },
  { "sed -i 's/model.norm.weight/model.noem.weight/' model.safetensors", "model.noem.weight" },
  { "echo '{' > config.json", "model/config.json:" },
  { "echo '[]' > config.json", "the top is not an object" },
  { "yes '[' | head -n 200000 | tr -d '\\n' > config.json", "nested too deeply" },
  { "sed -i 's/\"llama\"/\"mamba\"/' config.json", "model_type mamba" },
  { "sed -i 's/LlamaForCausalLM/LlamaForTokenClassification/' config.json", "LlamaForTokenClassification" },
  { "sed -i 's/\"hidden_size\": [0-9]*/\"hidden_size\": 0/' config.json", "hidden_size" },
  { "sed -i 's/\"hidden_size\": [0-9]*/\"hidden_size\": \"64\"/' config.json", "hidden_size is not a number" },
  { "sed -i 's/\"hidden_size\": [0-9]*/\"hidden_size\": 16777216/' config.json", "shape" },
  { "sed -i 's/\"num_hidden_layers\": [0-9]*/\"num_hidden_layers\": 4000/' config.json", "layers" },
  { "sed -i 's/\"vocab_size\": [0-9]*/\"vocab_size\": 16000000/' config.json", "embed_tokens" },
  { "sed -i 's/\"hidden_act\": \"silu\"/\"hidden_act\": \"gelu\"/' config.json", "gelu" },
};

static void
test_models (Engine *engine, gconstpointer data)
{
  g_assert_cmpint (engine_shell (engine, "sed '/^new/d' $SPECS/grpo.spec > policy.spec"), ==, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (models); i++)
    {
      spoil (engine, models[i][0]);
      engine_write (engine, "ids", "[1,2,3]\n");
      refuse (engine, 3, models[i][1], "logprobs --model model --ids ids");
      refuse_run (engine, models[i][1], "policy.spec --set model.policy=model");
    }
  refuse (engine, 3, "nowhere", "generate --model nowhere --prompt a");
}

/* Ids are looked up in a table: one that the model does not have must not be read. */
static void
test_ids (Engine *engine, gconstpointer data)
{
  static const char *const lines[][2] = {
    { "[1,2,3]\n[1,99999999]\n", "99999999" }, { "[1,-1]\n", ":1" },   { "[1,2.5]\n", ":1" },
    { "[1,\"a\"]\n", ":1" },                   { "[[1],2]\n", ":1" },  { "{\"id\":[1]}\n", "ids" },
    { "\n\n[1,\n", "line 3" },                 { "null\n", "ids" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (lines); i++)
    {
      engine_write (engine, "ids", lines[i][0]);
      refuse (engine, 3, lines[i][1], "logprobs --model $FIXTURES/models/llama --ids ids");
    }
  refuse (engine, 3, "nowhere", "logprobs --model $FIXTURES/models/llama --ids nowhere");
}

static void
test_read_only (Engine *engine, gconstpointer data)
{
  g_autofree char *folder = engine_path (engine, "closed");
  if (geteuid () == 0)
    {
      g_test_skip ("the superuser may write everywhere");
      return;
    }
  g_assert_cmpint (mkdir (folder, 0555), ==, 0);
  refuse (engine, 4, "closed", "run $SPECS/sft.spec --run-dir closed/run");
}

/* A file where a folder should be is refused for the superuser too. */
static void
test_blocked (Engine *engine, gconstpointer data)
{
  engine_write (engine, "file", "");
  refuse (engine, 4, "file/run", "run $SPECS/sft.spec --run-dir file/run");
  engine_write (engine, "full/other", "");
  refuse (engine, 3, "full", "run $SPECS/sft.spec --run-dir full");
}

/* The limit on the size of a file stands for a full disk where nothing can be mounted. What was saved before is
 * whole, and the run goes on once there is room. */
static void
test_full_disk (Engine *engine, gconstpointer data)
{
  int code = engine_shell (engine, "trap '' XFSZ; ulimit -f 400; \"$ENGINE\" run $SPECS/sft.spec --set "
                           "model.new.width=32 --set model.new.mlp=64 --run-dir full > out.txt 2> err.txt < /dev/null");
  g_autofree char *message = engine_read (engine, "err.txt");
  g_assert_cmpint (code, ==, 5);
  assert_has (message, "full/checkpoints/step-000001.new/optimizer.safetensors");
  assert_has (message, "File too large");
  assert_has (message, "(while writing a checkpoint, after step 0)");
  g_assert_cmpint (engine_shell (engine, "test -z \"$(ls full/checkpoints)\""), ==, 0);
  g_assert_cmpint (engine_call (engine, "status full"), ==, 0);
  assert_has (engine->out, "Failed");
  g_assert_cmpint (engine_call (engine, "run --resume --run-dir full"), ==, 0);
  g_assert_cmpint (engine_call (engine, "generate --model full/checkpoints/step-000006/model --prompt a"), ==, 0);
}

static void
test_full_file_system (Engine *engine, gconstpointer data)
{
  g_autofree char *disk = engine_path (engine, "disk");
  g_assert_cmpint (mkdir (disk, 0755), ==, 0);
  if (mount ("tmpfs", disk, "tmpfs", 0, "size=1m") != 0)
    {
      g_test_skip ("mounting a small file system is not allowed here");
      return;
    }
  int code = engine_call (engine, "run $SPECS/sft.spec --set model.new.width=64 --set model.new.mlp=256 --set "
                          "checkpoint.every=1 --run-dir disk/run");
  g_autofree char *message = g_strdup (engine->err);
  int status = engine_call (engine, "status disk/run");
  g_autofree char *state = g_strdup (engine->out);
  int saved = engine_shell (engine, "ls disk/run/checkpoints | grep -c new");
  g_assert_cmpint (umount (disk), ==, 0);
  g_assert_cmpint (code, ==, 4);
  assert_has (message, "and a checkpoint takes 1.");
  g_assert_cmpint (status, ==, 0);
  assert_has (state, "Failed");
  g_assert_cmpint (saved, ==, 1); /* nothing half written */
}

/* A disk that fills up while the run goes on: it is told, and the run stops while a checkpoint fits. */
static void
test_filling_disk (Engine *engine, gconstpointer data)
{
  g_autofree char *disk = engine_path (engine, "disk");
  g_assert_cmpint (mkdir (disk, 0755), ==, 0);
  if (mount ("tmpfs", disk, "tmpfs", 0, "size=12m") != 0)
    {
      g_test_skip ("mounting a small file system is not allowed here");
      return;
    }
  int code = engine_call (engine, "run $SPECS/sft.spec --set model.new.width=64 --set model.new.mlp=256 --set "
                          "checkpoint.every=1 --set schedule.steps=200 --run-dir disk/run");
  g_autofree char *said = g_strconcat (engine->out, engine->err, NULL);
  engine_call (engine, "status disk/run");
  g_autofree char *state = g_strdup (engine->out);
  engine_call (engine, "telemetry disk/run --since 0");
  g_autofree char *events = g_strdup (engine->out);
  int whole = engine_call (engine, "export disk/run --to out");
  g_assert_cmpint (umount (disk), ==, 0);
  if (code != 0)
    g_error ("%d: %s", code, said);
  assert_has (said, "stopped at step ");
  assert_has (state, "Stopped");
  assert_has (events, "disk-low");
  assert_has (events, "disk-full");
  g_assert_cmpint (whole, ==, 0);
}

/* What the machine has no memory for is refused before anything is taken, with the numbers, by `validate` too. */
static void
test_memory (Engine *engine, gconstpointer data)
{
  static const char *const commands[] = { "validate", "run --run-dir none" };
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      g_assert_cmpint (engine_call (engine, "%s $SPECS/grpo.spec --set train.tokens_per_micro_batch=67108864", commands[i]), ==,
                       4);
      g_autofree char *all = g_strconcat (engine->out, engine->err, NULL);
      g_assert_nonnull (strstr (all, "which has"));
      g_assert_nonnull (strstr (all, "activations"));
      g_assert_nonnull (strstr (all, "Lower train.tokens_per_micro_batch"));
    }
  /* A new model's weights, 2 TB of them, are not made to find that out. */
  g_assert_cmpint (engine_call (engine, "validate $SPECS/grpo.spec --set model.new.width=16384 --set model.new.layers=128 "
                                "--set model.new.heads=128 --set model.new.mlp=65536"), ==, 4);
  g_autofree char *said = g_strconcat (engine->out, engine->err, NULL);
  assert_has (said, "weights 2199057");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/bad-input/spec", test_spec);
  ENGINE_TEST ("/bad-input/data", test_data);
  ENGINE_TEST ("/bad-input/late-rows", test_late_rows);
  ENGINE_TEST ("/bad-input/models", test_models);
  ENGINE_TEST ("/bad-input/ids", test_ids);
  ENGINE_TEST ("/bad-input/read-only", test_read_only);
  ENGINE_TEST ("/bad-input/blocked", test_blocked);
  ENGINE_TEST ("/bad-input/full-disk", test_full_disk);
  ENGINE_TEST ("/bad-input/full-file-system", test_full_file_system);
  ENGINE_TEST ("/bad-input/filling-disk", test_filling_disk);
  ENGINE_TEST ("/bad-input/memory", test_memory);
  return g_test_run ();
}
