/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations through the real program: what preview shows is what a run trains on. */
#include "config.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "tests/engine/harness.h"

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

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ENGINE_TEST ("/preview/rows", test_preview);
  ENGINE_TEST ("/preview/faults", test_faults);
  ENGINE_TEST ("/preview/run", test_run);
  return g_test_run ();
}
