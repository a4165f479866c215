/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations through the real program: what preview shows is what a run trains on. */
#include "config.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "tests/engine/harness.h"
#include "tests/unit/shared.h"

/* The first answer loses what stands before ) once another turn follows. */
#define TEMPLATE                                                                                                     \
  "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' and not loop.last %}"                            \
  "{{ m.content.split(')')[-1] }}{% else %}{{ m.content }}{% endif %}{% if m.role == 'assistant' %}<eos>{% endif %}" \
  "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
#define ROWS                                                                                                           \
  "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"(1)b\"},"        \
  " {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"(2)d\"}]}\n"                    \
  "{\"messages\": [{\"role\": \"user\", \"content\": \"nobody answers\"}]}\n"                                          \
  "{\"conversations\": 7, \"messages\": [{\"role\": \"user\", \"content\": \"e\"},"                                    \
  " {\"role\": \"assistant\", \"content\": \"f<eos>g\"}]}\n"

static void
write_inputs (Engine *engine, const char *more)
{
  g_autofree char *spec = g_strdup_printf ("[run]\nalgorithm = sft\n[model]\nnew.width = 32\nnew.layers = 1\n"
                                           "new.heads = 2\nmax_length = 128\nprecision = fp32\n"
                                           "chat_template = t.jinja\n[data]\ntrain = rows.jsonl\n[train]\nbatch = 2\n"
                                           "[schedule]\nsteps = 2\n[checkpoint]\nexport = never\n%s",
                                           more);

  engine_write (engine, "t.jinja", TEMPLATE);
  engine_write (engine, "rows.jsonl", ROWS);
  engine_write (engine, "a.spec", spec);
}

/* The text of a sequence with what is trained in braces. */
static char *
marked (JsonObject *sequence)
{
  JsonArray *segments = json_object_get_array_member (sequence, "segments");
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < json_array_get_length (segments); i++)
    {
      JsonObject *segment = json_array_get_object_element (segments, i);
      gboolean trained = json_object_get_boolean_member (segment, "trained");

      g_string_append_printf (text, trained ? "{%s}" : "%s", json_object_get_string_member (segment, "text"));
    }
  return g_string_free (text, FALSE);
}

static void
test_preview (Engine *engine, gconstpointer data)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  JsonObject *top, *first;
  JsonArray *sequences;
  g_autofree char *one = NULL, *two = NULL;

  write_inputs (engine, "");
  g_assert_cmpint (engine_call (engine, "preview a.spec --json"), ==, 0);
  top = engine_json (engine, parser);
  g_assert_cmpint (json_object_get_int_member (json_object_get_object_member (top, "counts"), "rows"), ==, 2);
  g_assert_cmpint (json_object_get_int_member (json_object_get_object_member (top, "counts"), "broken"), ==, 1);
  first = json_array_get_object_element (json_object_get_array_member (top, "rows"), 0);
  sequences = json_object_get_array_member (first, "sequences");
  g_assert_cmpuint (json_array_get_length (sequences), ==, 2);
  one = marked (json_array_get_object_element (sequences, 0));
  two = marked (json_array_get_object_element (sequences, 1));
  g_assert_cmpstr (one, ==, "[user]a[assistant]{(1)b<eos>}");
  g_assert_cmpstr (two, ==, "[user]a[assistant]b<eos>[user]c[assistant]{(2)d<eos>}");
  g_assert_cmpint (engine_call (engine, "preview a.spec -n 1"), ==, 0);
  assert_has (engine->out, "messages = messages");
  assert_has (engine->out, "rows.jsonl:2: the conversation has no assistant turn");
  assert_has (engine->out, "⟦(1)b<eos>⟧");
  assert_has (engine->out, "1 of 2 rows spell control tokens");
  g_assert_cmpint (engine_call (engine, "validate a.spec"), ==, 0);
  assert_has (engine->out, "rows.jsonl:3: content of message 2 spells the control token <eos>");
}

static void
test_faults (Engine *engine, gconstpointer data)
{
  write_inputs (engine, "");
  g_assert_cmpint (engine_call (engine, "preview a.spec -n 0"), ==, 2);
  g_assert_cmpint (engine_call (engine, "preview a.spec --set data.train=none.jsonl"), ==, 3);
  assert_has (engine->err, "none.jsonl");
  g_assert_cmpint (engine_call (engine, "preview a.spec --set model.chat_template=none.jinja"), ==, 3);
  assert_has (engine->err, "none.jinja");
  g_assert_cmpint (engine_call (engine, "preview a.spec --set model.new.width=none"), ==, 0);
  assert_has (engine->err, "model.new.width = none");
  engine_write (engine, "b.spec", "[run]\nalgorithm = sft\n[data]\ntrain = rows.jsonl\n");
  g_assert_cmpint (engine_call (engine, "preview b.spec"), ==, 3);
  assert_has (engine->err, "model.policy: there is no model");
  engine_write (engine, "rows.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n");
  g_assert_cmpint (engine_call (engine, "preview a.spec --json"), ==, 3);
  assert_has (engine->out, "there is nothing to train");
}

static void
test_run (Engine *engine, gconstpointer data)
{
  write_inputs (engine, "");
  g_assert_cmpint (engine_call (engine, "run a.spec --run-dir r"), ==, 0);
  /* Three sequences a step; the loss of a fresh model is the logarithm of its vocabulary. */
  {
    g_autoptr (GArray) loss = engine_series (engine, "r", "loss/sft");

    g_assert_cmpuint (loss->len, ==, 2);
    g_assert_cmpfloat_with_epsilon (g_array_index (loss, double, 0), 5.56, 0.2);
  }
}

/* A model whose padding token is its end of sequence: every answer's end is trained, once. The loss is that of another
 * implementation in double precision, over 42 tokens; masked by the padding id it would be 1.020. */
static void
test_padding_is_end (Engine *engine, gconstpointer data)
{
  g_autofree char *model = shared_file ("models/stories260K");
  g_autoptr (GArray) loss = NULL;

  if (model == NULL)
    return;
  g_assert_cmpint (engine_shell (engine, "cp -r %s m", model), ==, 0);
  engine_write (engine, "m/tokenizer_config.json",
                "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"bos_token\": \"<s>\", \"eos_token\": \"</s>\","
                " \"pad_token\": \"</s>\", \"unk_token\": \"<unk>\", \"add_bos_token\": true, \"add_eos_token\": false}");
  engine_write (engine, "rows.jsonl",
                "{\"prompt\": \"Once upon a time\", \"response\": \", there was a little girl named Lily.\"}\n"
                "{\"prompt\": \"The dog\", \"response\": \" was happy.\"}\n"
                "{\"prompt\": \"Tom\", \"response\": \" and Sam went to the park to play with a big red ball. They had"
                " fun.\"}\n");
  engine_write (engine, "a.spec",
                "[run]\nalgorithm = sft\n[model]\npolicy = m\nprecision = fp32\nmax_length = 128\n[data]\n"
                "train = rows.jsonl\n[train]\nbatch = 3\n[schedule]\nsteps = 1\n[checkpoint]\nexport = never\n");
  for (int tokens = 16; tokens <= 64; tokens += 48)
    {
      g_assert_cmpint (engine_call (engine, "run a.spec --set train.tokens_per_micro_batch=%d --run-dir r%d", tokens, tokens),
                       ==, 0);
      g_autofree char *run = g_strdup_printf ("r%d", tokens);
      g_clear_pointer (&loss, g_array_unref);
      loss = engine_series (engine, run, "loss/sft");
      g_assert_cmpfloat_with_epsilon (g_array_index (loss, double, 0), 2.667876, 3e-6);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/preview/rows", test_preview);
  ENGINE_TEST ("/preview/faults", test_faults);
  ENGINE_TEST ("/preview/run", test_run);
  ENGINE_TEST ("/preview/padding-is-end", test_padding_is_end);
  return g_test_run ();
}
