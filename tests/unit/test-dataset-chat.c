/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that are conversations, and keys that are guessed. */
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "tests/unit/data-fixture.h"
#include "tests/unit/shared.h"

#define PLAIN_TEMPLATE                                                                                                 \
  "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.role == 'assistant' %}<eos>{% endif %}{{ '\\n' }}{% endfor %}"   \
  "{% if add_generation_prompt %}[assistant]{% endif %}"
/* Earlier answers lose what stands in round brackets at their beginning. */
#define FORGETFUL_TEMPLATE                                                                                             \
  "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' and not loop.last %}"                              \
  "{{ m.content.split(')')[-1] }}{% else %}{{ m.content }}{% endif %}{% if m.role == 'assistant' %}<eos>{% endif %}{{ '\\n' }}" \
  "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"

static void
set_up (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  fixture_open (fixture, 4096);
  fixture->chat = plumb_template_new ("test", data != NULL ? data : PLAIN_TEMPLATE, -1, &error);
  g_assert_no_error (error);
  fixture->options.chat = fixture->chat;
}

static PlumbDataSet *
try_text (Fixture *fixture, const char *text, GError **error)
{
  g_autofree char *path = g_build_filename (fixture->folder, "rows.jsonl", NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  return open_paths (fixture, path, error);
}

static PlumbDataSet *
open_text (Fixture *fixture, const char *text)
{
  g_autoptr (GError) error = NULL;
  PlumbDataSet *set = try_text (fixture, text, &error);

  g_assert_no_error (error);
  return set;
}

/* The text of the ids, with what is trained in braces. */
static char *
marked (Fixture *fixture, const PlumbDataRow *row, const GArray *answer, const GArray *trained)
{
  GString *text = g_string_new (NULL);
  gboolean in = FALSE;

  for (guint i = 0; i < row->prompt_ids->len + (answer != NULL ? answer->len : 0); i++)
    {
      gboolean prompt = i < row->prompt_ids->len;
      guint at = prompt ? i : i - row->prompt_ids->len;
      gint32 id = g_array_index (prompt ? row->prompt_ids : answer, gint32, at);
      gboolean mark = !prompt && (trained == NULL || g_array_index (trained, guint8, at));

      if (mark != in)
        g_string_append_c (text, mark ? '{' : '}');
      in = mark;
      if (id < 256)
        g_string_append_c (text, id);
      else
        g_string_append (text, plumb_tokenizer_token (fixture->tokenizer, id));
    }
  if (in)
    g_string_append_c (text, '}');
  return g_string_free (text, FALSE);
}

static void
assert_row (Fixture *fixture, const PlumbDataRow *row, const char *response, const char *rejected)
{
  g_autofree char *a = marked (fixture, row, row->response_ids, row->response_trained);
  g_autofree char *b = marked (fixture, row, row->rejected_ids, row->rejected_trained);

  g_assert_cmpstr (a, ==, response);
  if (rejected != NULL)
    g_assert_cmpstr (b, ==, rejected);
}

/* Opens one row and compares it. */
static void
assert_text (Fixture *fixture, const char *text, const char *response, const char *rejected)
{
  g_autoptr (PlumbDataSet) set = open_text (fixture, text);
  g_autoptr (PlumbDataRow) row = row_of (set, 0);

  assert_row (fixture, row, response, rejected);
}

static void
assert_fault (Fixture *fixture, const char *text, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbDataSet) set = try_text (fixture, text, &error);

  g_assert_null (set);
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  if (strstr (error->message, message) == NULL)
    {
      const PlumbProblem *first = fixture->reports->len > 0 ? g_ptr_array_index (fixture->reports, 0) : NULL;

      if (first == NULL || strstr (first->message, message) == NULL)
        g_error ("\"%s\" is not in \"%s\"", message, error->message);
    }
}

#define TALK                                                                                                           \
  "[{\"role\": \"user\", \"content\": \"yes\"}, {\"role\": \"assistant\", \"content\": \"yes\"},"                      \
  " {\"role\": \"user\", \"content\": \"yes\"}, {\"role\": \"assistant\", \"content\": \"no\"}]"

/* Only what the assistant says is trained, though others use the same words. */
static void
test_supervised (Fixture *fixture, gconstpointer data)
{
  fixture->options.keys.need_response = TRUE;
  assert_text (fixture, "{\"messages\": " TALK "}\n",
               "[user]yes\n[assistant]{yes<eos>}\n[user]yes\n[assistant]{no<eos>}", NULL);
  fixture->options.train_on = PLUMB_TRAIN_ON_LAST_TURN;
  assert_text (fixture, "{\"messages\": " TALK "}\n",
               "[user]yes\n[assistant]yes<eos>\n[user]yes\n[assistant]{no<eos>}", NULL);
  fixture->options.train_on = PLUMB_TRAIN_ON_RESPONSE;
  fixture->options.system = "Be short.";
  assert_text (fixture, "{\"prompt\": \"2+2\", \"completion\": \"4\"}\n",
               "[system]Be short.\n[user]2+2\n[assistant]{4<eos>}", NULL);
  assert_text (fixture, "{\"system\": \"Be long.\", \"prompt\": \"2+2\", \"completion\": \"4\"}\n",
               "[system]Be long.\n[user]2+2\n[assistant]{4<eos>}", NULL);
  /* Words around the prompt go before the chat template. */
  fixture->options.prompt_template = "Q: {prompt} A:";
  assert_text (fixture, "{\"prompt\": \"2+2\", \"completion\": \" 4\"}\n", "<bos>Q: 2+2 A:{ 4<eos>}", NULL);
}

static void
test_spellings (Fixture *fixture, gconstpointer data)
{
  fixture->options.keys.need_response = TRUE;
  assert_text (fixture,
               "{\"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}, {\"from\": \"gpt\", \"value\": \"ho\"}],"
               " \"system\": \"s\"}\n",
               "[system]s\n[user]hi\n[assistant]{ho<eos>}", NULL);
  /* A prompt and an answer may be messages too. */
  assert_text (fixture,
               "{\"prompt\": [{\"role\": \"user\", \"content\": \"hi\"}],"
               " \"completion\": [{\"role\": \"assistant\", \"content\": \"ho\"}]}\n",
               "[user]hi\n[assistant]{ho<eos>}", NULL);
  assert_text (fixture, "{\"instruction\": \"Spell\", \"input\": \"freind\", \"output\": \"friend\"}\n",
               "[user]Spell\n\nfreind\n[assistant]{friend<eos>}", NULL);
  assert_text (fixture, "{\"instruction\": \"Spell\", \"input\": \"\", \"output\": \"friend\"}\n",
               "[user]Spell\n[assistant]{friend<eos>}", NULL);
  assert_text (fixture, "{\"instruction\": \"I\", \"instances\": [{\"input\": \"a\", \"output\": \"b\"}]}\n",
               "[user]I\n\na\n[assistant]{b<eos>}", NULL);
  fixture->options.keys.prompt = g_strdup ("q.text");
  fixture->options.keys.response = g_strdup ("a.1");
  assert_text (fixture, "{\"q\": {\"text\": \"why\"}, \"a\": [\"x\", \"because\"]}\n",
               "[user]why\n[assistant]{because<eos>}", NULL);
}

static void
test_prompts (Fixture *fixture, gconstpointer data)
{
  fixture->options.keys.prompts_only = TRUE;
  assert_text (fixture, "{\"messages\": " TALK "}\n", "[user]yes\n[assistant]yes<eos>\n[user]yes\n[assistant]", NULL);
  assert_text (fixture, "{\"question\": \"2+2\", \"answer\": 4}\n", "[user]2+2\n[assistant]", NULL);
  assert_text (fixture, "{\"nums\": [61, 58, 79], \"target\": 40}\n",
               "[user]Using the numbers 61, 58, 79, each at most once, and + - * /, write an expression that equals 40."
               "\n[assistant]",
               NULL);
  assert_text (fixture, "{\"Body\": \"A has 2.\", \"Question\": \"How many?\", \"Answer\": 2.0}\n",
               "[user]A has 2. How many?\n[assistant]", NULL);
}

static void
test_pairs (Fixture *fixture, gconstpointer data)
{
  fixture->options.keys.need_pair = TRUE;
  assert_text (fixture, "{\"prompt\": \"p\", \"chosen\": \"good\", \"rejected\": \"bad\"}\n",
               "[user]p\n[assistant]{good<eos>}", "[user]p\n[assistant]{bad<eos>}");
  assert_text (fixture,
               "{\"conversations\": [{\"from\": \"human\", \"value\": \"p\"}],"
               " \"chosen\": {\"from\": \"gpt\", \"value\": \"good\"}, \"rejected\": {\"from\": \"gpt\", \"value\": \"bad\"}}\n",
               "[user]p\n[assistant]{good<eos>}", "[user]p\n[assistant]{bad<eos>}");
  /* Lists that begin alike, with or without a prompt beside them. */
  assert_text (fixture,
               "{\"prompt\": \"p\", \"chosen\": [{\"role\": \"user\", \"content\": \"p\"},"
               " {\"role\": \"assistant\", \"content\": \"good\"}], \"rejected\": [{\"role\": \"user\","
               " \"content\": \"p\"}, {\"role\": \"assistant\", \"content\": \"bad\"}]}\n",
               "[user]p\n[assistant]{good<eos>}", "[user]p\n[assistant]{bad<eos>}");
  /* Dialogs as one text; what both share leads up. */
  assert_text (fixture,
               "{\"chosen\": \"\\n\\nHuman: p\\n\\nAssistant: q\\n\\nHuman: r\\n\\nAssistant: good\","
               " \"rejected\": \"\\n\\nHuman: p\\n\\nAssistant: q\\n\\nHuman: r\\n\\nAssistant: bad\"}\n",
               "[user]p\n[assistant]q<eos>\n[user]r\n[assistant]{good<eos>}",
               "[user]p\n[assistant]q<eos>\n[user]r\n[assistant]{bad<eos>}");
  assert_fault (fixture, "{\"prompt\": \"p\", \"chosen\": \"same\", \"rejected\": \"same\"}\n", "chosen equals rejected");
  assert_fault (fixture, "{\"prompt\": \"p\", \"chosen\": [\"a\", \"b\"], \"rejected\": \"bad\"}\n", "chosen is an array");
  fixture->options.chat = NULL;
  assert_text (fixture,
               "{\"chosen\": \"\\n\\nHuman: p\\n\\nAssistant: good\", \"rejected\": \"\\n\\nHuman: p\\n\\nAssistant: bad\"}\n",
               "<bos>\n\nHuman: p\n\nAssistant:{ good<eos>}", "<bos>\n\nHuman: p\n\nAssistant:{ bad<eos>}");
}

static void
test_feedback (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (PlumbDataRow) liked = NULL, disliked = NULL;

  fixture->options.keys.need_label = TRUE;
  set = open_text (fixture, "{\"messages\": " TALK ", \"label\": true}\n{\"messages\": " TALK ", \"label\": false}\n");
  liked = row_of (set, 0);
  disliked = row_of (set, 1);
  assert_row (fixture, liked, "[user]yes\n[assistant]yes<eos>\n[user]yes\n[assistant]{no<eos>}", NULL);
  g_assert_true (liked->liked);
  g_assert_false (disliked->liked);
  /* A text that is liked as it is. */
  assert_text (fixture, "{\"text\": \"a film\", \"label\": 1}\n", "<bos>{a film<eos>}", NULL);
}

/* A template that rewrites history: each answer is trained where it ends, never by subtraction. */
static void
test_rewritten (Fixture *fixture, gconstpointer data)
{
  static const char text[]
      = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"(1)b\"},"
        " {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": \"(2)d\"}]}\n";
  g_autoptr (PlumbDataSet) set = NULL;
  g_autoptr (PlumbDataRow) row = NULL;
  gboolean told = FALSE;

  fixture->options.keys.need_response = TRUE;
  set = open_text (fixture, text);
  row = row_of (set, 0);
  assert_row (fixture, row, "[user]a\n[assistant]{(1)b<eos>}", NULL);
  g_assert_nonnull (row->next);
  assert_row (fixture, row->next, "[user]a\n[assistant]b<eos>\n[user]c\n[assistant]{(2)d<eos>}", NULL);
  g_assert_null (row->next->next);
  g_assert_cmpuint (plumb_data_set_counts (set)->rewritten, ==, 1);
  for (guint i = 0; i < plumb_data_set_notes (set)->len; i++)
    {
      const PlumbProblem *problem = g_ptr_array_index (plumb_data_set_notes (set), i);

      told |= problem->line == 1 && strstr (problem->message, "message 2 otherwise") != NULL;
    }
  g_assert_true (told);
}

static void
test_faults (Fixture *fixture, gconstpointer data)
{
  fixture->options.keys.need_response = TRUE;
  assert_fault (fixture, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n", "no assistant turn");
  assert_fault (fixture, "{\"messages\": []}\n", "messages");
  assert_fault (fixture, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, 7]}\n", "message 2 is no object");
  assert_fault (fixture, "{\"messages\": [{\"role\": \"user\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n",
                "message 1, of \"user\", has no content");
  assert_fault (fixture, "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\u0000\"}]}\n", "NUL");
  assert_fault (fixture, "{\"messages\": \"text\"}\n", "messages is a string, not a list of messages");
  fixture->options.keys.messages = g_strdup ("mesages");
  assert_fault (fixture, "{\"messages\": " TALK "}\n", "set data.messages_key = messages?");
  g_clear_pointer (&fixture->options.keys.messages, g_free);
  fixture->options.chat = NULL;
  assert_fault (fixture, "{\"messages\": " TALK "}\n", "set model.chat_template");
}

/* Control tokens in messages are told with their row and counted. */
static void
test_control (Fixture *fixture, gconstpointer data)
{
  g_autoptr (PlumbDataSet) set = NULL;

  fixture->options.keys.need_response = TRUE;
  set = open_text (fixture, "{\"prompt\": \"a\", \"response\": \"b\"}\n{\"prompt\": \"a<eos>\", \"response\": \"b\"}\n");
  g_assert_cmpuint (plumb_data_set_counts (set)->control, ==, 1);
  g_assert_cmpuint (plumb_data_set_notes (set)->len, ==, 3); /* the keys, the row, the sum */
  g_assert_cmpuint (((PlumbProblem *)g_ptr_array_index (plumb_data_set_notes (set), 1))->line, ==, 2);
}

static void
test_overlong (Fixture *fixture, gconstpointer data)
{
  static const char text[] = "{\"prompt\": \"0123456789\", \"response\": \"abcdefghij\"}\n"
                             "{\"prompt\": \"0\", \"response\": \"a\"}\n";
  g_autoptr (PlumbDataSet) dropped = NULL, cut = NULL;
  g_autoptr (PlumbDataRow) row = NULL;

  fixture->options.keys.need_response = TRUE;
  fixture->options.max_length = 32;
  dropped = open_text (fixture, text);
  g_assert_cmpuint (plumb_data_set_n_rows (dropped), ==, 1);
  g_assert_cmpuint (plumb_data_set_counts (dropped)->dropped, ==, 1);
  fixture->options.on_overlong = 2;
  cut = open_text (fixture, text);
  g_assert_cmpuint (plumb_data_set_counts (cut)->truncated, ==, 1);
  row = row_of (cut, 0);
  assert_row (fixture, row, "[user]0123456789\n[assistant]{abcd}", NULL);
}

/* Real data sets load with guessed keys. */
static void
test_real (Fixture *fixture, gconstpointer data)
{
  enum { PAIRS, LABELS, RESPONSES, PROMPTS };
  static const struct
  {
    const char *name;
    int kind;
    gsize rows;
  } sets[] = {
    { "preference/gsm8k_model_solutions/kto.jsonl.gz", LABELS, 5276 },
    { "preference/gsm8k_model_solutions/pairs.jsonl", PAIRS, 2429 },
    { "preference/hh_rlhf/harmless-base.test.jsonl.gz", PAIRS, 2312 },
    { "preference/kto_mix_test/kto-mix-test.jsonl.gz", LABELS, 1092 },
    { "preference/llamafactory_demo/dpo_en_demo.jsonl.gz", PAIRS, 300 },
    { "preference/llamafactory_demo/kto_en_demo.jsonl", LABELS, 300 },
    { "preference/rasbt_polite/instruction-data-with-preference.jsonl", PAIRS, 1094 }, /* six pairs are equal */
    { "preference/sentence_polarity/sentence_polarity.jsonl.gz", LABELS, 10662 },
    { "sft/alpaca_seed_tasks/seed_tasks.jsonl", RESPONSES, 175 },
    { "sft/gpteacher/roleplay.jsonl.gz", RESPONSES, 1923 },
    { "sft/rasbt_instructions/instruction-data.jsonl", RESPONSES, 1100 },
    { "rlvr/deepmath/train.jsonl.gz", PROMPTS, 2500 },
    { "rlvr/gsm8k/test.jsonl", PROMPTS, 1319 },
    { "rlvr/humaneval/HumanEval.jsonl", PROMPTS, 164 },
    { "rlvr/svamp/svamp.jsonl", PROMPTS, 1000 },
    { "synthetic/arithmetic/test.jsonl", PROMPTS, 1000 },
    { "synthetic/countdown/test.jsonl", PROMPTS, 400 },
  };

  fixture->options.max_length = 1 << 20;
  for (gsize i = 0; i < G_N_ELEMENTS (sets); i++)
    {
      g_autofree char *path = shared_file (sets[i].name);
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbDataSet) set = NULL;

      if (path == NULL)
        return;
      fixture->options.keys.need_pair = sets[i].kind == PAIRS;
      fixture->options.keys.need_label = sets[i].kind == LABELS;
      fixture->options.keys.need_response = sets[i].kind == RESPONSES;
      fixture->options.keys.prompts_only = fixture->options.keys.need_answer = sets[i].kind == PROMPTS;
      set = open_paths (fixture, path, &error);
      g_assert_no_error (error);
      if (plumb_data_set_n_rows (set) != sets[i].rows)
        g_error ("%s: %" G_GSIZE_FORMAT " rows instead of %" G_GSIZE_FORMAT, path, plumb_data_set_n_rows (set),
                 sets[i].rows);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, data, function)                                                                  \
  g_test_add ("/dataset-chat/" name, Fixture, data, set_up, function, tear_down)
  ADD ("supervised", NULL, test_supervised);
  ADD ("spellings", NULL, test_spellings);
  ADD ("prompts", NULL, test_prompts);
  ADD ("pairs", NULL, test_pairs);
  ADD ("feedback", NULL, test_feedback);
  ADD ("rewritten", FORGETFUL_TEMPLATE, test_rewritten);
  ADD ("faults", NULL, test_faults);
  ADD ("control", NULL, test_control);
  ADD ("overlong", NULL, test_overlong);
  ADD ("real", NULL, test_real);
  return g_test_run ();
}
