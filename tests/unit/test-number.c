/* SPDX-License-Identifier: Apache-2.0 */
/* The number verifier on answers that are more than a number, and on real data. */
#include "config.h"

#include <string.h>

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "engine/reward/answer-text.h"
#include "engine/reward/expression.h"
#include "engine/reward/reward.h"
#include "tests/unit/shared.h"

static PlumbReward *
make_number (void)
{
  g_autoptr (PlumbSpec) spec = plumb_spec_new ();
  g_autoptr (GError) error = NULL;
  PlumbReward *reward;

  g_assert_true (plumb_spec_set (spec, "reward.functions", "number", NULL));
  reward = plumb_reward_new (spec, &error);
  g_assert_no_error (error);
  return reward;
}

static double
score (PlumbReward *reward, const char *response, const char *answer)
{
  PlumbRewardInput input = { .prompt = "", .response = response, .answer = answer };
  PlumbRewardScore result;

  plumb_reward_score (reward, &input, &result, NULL);
  g_assert_false (result.failed);
  return result.value;
}

static double
score_box (PlumbReward *reward, const char *content, const char *answer)
{
  g_autofree char *response = g_strdup_printf ("So it is \\boxed{%s}.", content);

  return score (reward, response, answer);
}

static void
test_forms (void)
{
  static const struct
  {
    const char *left, *right;
    double expect;
  } cases[] = {
    { "\\frac{\\pi}{2}", "\\pi/2", 1 },
    { "\\frac{\\pi}{2}", "\\frac{1}{2}\\pi", 1 },
    { "\\frac{\\pi}{2}", "0.5 \\pi", 1 },
    { "\\frac{\\pi}{2}", "\\frac{2}{\\pi}", 0 },
    { "\\tfrac12 n", "n/2", 1 },
    { "2 + 3\\sqrt2", "3\\sqrt{2}+2", 1 },
    { "2 + 3\\sqrt2", "2\\sqrt{3}+2", 0 },
    { "\\frac{1}{e}", "e^{-1}", 1 },
    { "\\frac{1}{\\sqrt{e}}", "e^{-1/2}", 1 },
    { "\\frac{1}{x+1}", "\\frac{1}{1+x}", 1 },
    { "\\frac{1}{x}+1", "\\frac{1}{x+1}", 0 },
    { "n-1", "-1 + n", 1 },
    { "n-1", "1-n", 0 },
    { "x^2-1", "x^{2} - 1", 1 },
    { "x^{2-1}", "x^2-1", 0 },
    { "x^{12}", "x^12", 0 },
    { "\\{1, 2, 3\\}", "\\left\\{ 3,1,2 \\right\\}", 1 },
    { "\\{1, 2, 3\\}", "\\{1,2\\}", 0 },
    { "(1, 3)", "\\left( 1,3 \\right)", 1 },
    { "(1, 3)", "(3, 1)", 0 },
    { "(1, 3)", "[1, 3]", 0 },
    { "(1, 3)", "(1, 3]", 0 },
    { "[0, \\infty)", "[0,+\\infty)", 1 },
    { "[0, \\infty)", "[0,-\\infty)", 0 },
    { "(\\frac12, 0.5)", "(0.5,\\frac{1}{2})", 1 },
    { "(1,000)", "(1,0)", 0 },
    { "x \\ge 3", "x\\geq 3", 1 },
    { "x \\ge 3", "x > 3", 0 },
    { "[0,1] \\cup [2,3]", "[2,3]\\cup[0,1]", 1 },
    { "[0,1] \\cup [2,3]", "[0,1]\\cap[2,3]", 0 },
    { "512, 729", "512 \\text{ and } 729", 1 },
    { "512, 729", "512 and 729", 1 },
    { "512, 729, \\text{ and } 3", "512, 729, 3", 1 },
    { "512, 729", "729", 0 },
    { "AB", "BA", 0 },
    { "A^{-1}B", "BA^{-1}", 0 },
    { "f^{-1}", "1/f", 0 },
    { "f(x)", "xf", 0 },
    { "f(2)", "2f", 0 },
    { "\\ln 2", "\\ln(2)", 1 },
    { "\\ln 2", "\\ln 3", 0 },
    { "\\cos(x)y", "\\cos(xy)", 0 },
    { "n!", "(n)!", 1 },
    { "(n+1)!", "n+1!", 0 },
    { "1/2x", "\\frac{x}{2}", 0 },
    { "\\emptyset", "\\varnothing", 1 },
    { "Yes", "\\text{yes}", 1 },
    { "True", "False", 0 },
    { "\\sqrt{4}", "2", 1 },
    { "2^{10}", "1024", 1 },
    { "2\\frac{3}{4}", "\\frac{11}{4}", 1 },
    { "2\\frac{3}{4}", "\\frac{6}{4}", 0 },
    { "5 + 3i", "3i+5", 1 },
    { "\\pm 2", "2", 0 },
    { "1/0", "1/0 + x", 0 },
    { "9223372036854775807x + x", "-9223372036854775808x", 0 },
  };
  g_autoptr (PlumbReward) reward = make_number ();

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    if (score_box (reward, cases[i].left, cases[i].right) != cases[i].expect
        || score_box (reward, cases[i].right, cases[i].left) != cases[i].expect)
      g_error ("%s and %s: not %g", cases[i].left, cases[i].right, cases[i].expect);
}

/* Nested without end, or long: answered at once. */
static void
test_hostile (void)
{
  static const char *const parts[] = { "(", "[", "{", "\\{", "\\frac{", "x^{", "|", "\\sqrt[", "-", "x_",
                                       "\\ln ", "2^", "f(", "1,", "\\text{" };
  gint64 start = g_get_monotonic_time ();

  for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
    for (guint n = 10; n < 2000; n *= 3)
      {
        g_autoptr (GString) text = g_string_new (NULL);
        g_autofree char *form = NULL;

        for (guint k = 0; k < n; k++)
          g_string_append (text, parts[i]);
        form = plumb_expression_normal (text->str);
      }
  g_assert_cmpint (g_get_monotonic_time () - start, <, 5 * G_USEC_PER_SEC);
}

/* The lines of a JSONL file of the data, packed or not; NULL when it is absent. */
static GPtrArray *
read_rows (const char *name)
{
  g_autofree char *path = shared_file (name);
  g_autoptr (GFile) file = path != NULL ? g_file_new_for_path (path) : NULL;
  g_autoptr (GInputStream) stream = NULL;
  g_autoptr (GDataInputStream) lines = NULL;
  GPtrArray *rows;
  char *line;

  if (path == NULL)
    return NULL;
  stream = G_INPUT_STREAM (g_file_read (file, NULL, NULL));
  if (g_str_has_suffix (name, ".gz"))
    {
      g_autoptr (GConverter) unpack
          = G_CONVERTER (g_zlib_decompressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP));
      GInputStream *unpacked = g_converter_input_stream_new (stream, unpack);

      g_set_object (&stream, unpacked);
      g_object_unref (unpacked);
    }
  lines = g_data_input_stream_new (stream);
  rows = g_ptr_array_new_with_free_func ((GDestroyNotify)json_node_unref);
  while ((line = g_data_input_stream_read_line (lines, NULL, NULL, NULL)) != NULL)
    {
      g_ptr_array_add (rows, json_from_string (line, NULL));
      g_free (line);
    }
  return rows;
}

static const char *
text_of (GPtrArray *rows, guint row, const char *key)
{
  return json_object_get_string_member (json_node_get_object (g_ptr_array_index (rows, row)), key);
}

static char *
replaced (const char *text, const char *from, const char *to)
{
  g_auto (GStrv) parts = g_strsplit (text, from, -1);

  return g_strjoinv (to, parts);
}

/* Other spellings of the same answer. */
static GPtrArray *
spellings (const char *answer)
{
  static const char *const changes[][2]
      = { { "\\dfrac", "\\frac" },   { "\\frac", "\\tfrac" }, { "\\frac", "\\dfrac" },
          { " ", "  " },             { "+", " + " },          { " = ", "=" },
          { "(", "\\left(" },        { ",", ", " },           { ", ", ",\\ " },
          { "\\dfrac{\\pi}{2}", "\\pi/2" }, { "\\infty", "{\\infty}" } };
  GPtrArray *result = g_ptr_array_new_with_free_func (g_free);

  g_ptr_array_add (result, g_strdup (answer));
  g_ptr_array_add (result, g_strdup_printf ("$%s$", answer));
  g_ptr_array_add (result, g_strdup_printf ("\\( %s \\)", answer));
  g_ptr_array_add (result, g_strdup_printf ("%s.", answer));
  for (gsize i = 0; i < G_N_ELEMENTS (changes); i++)
    g_ptr_array_add (result, replaced (answer, changes[i][0], changes[i][1]));
  return result;
}

static void
test_deepmath (void)
{
  g_autoptr (GPtrArray) rows = read_rows ("rlvr/deepmath/train.jsonl.gz");
  g_autoptr (PlumbReward) reward = make_number ();
  guint checks = 0;

  if (rows == NULL)
    return;
  g_assert_cmpuint (rows->len, >=, 2000);
  for (guint i = 0; i < rows->len; i++)
    {
      const char *answer = text_of (rows, i, "answer");
      g_autoptr (GPtrArray) others = spellings (answer);

      for (guint k = 0; k < others->len; k++, checks++)
        if (score_box (reward, g_ptr_array_index (others, k), answer) != 1)
          g_error ("row %u: %s is not %s", i + 1, (char *)g_ptr_array_index (others, k), answer);
    }
  g_test_message ("%u answers, %u spellings", rows->len, checks);
}

/* Pairs of different texts that are equal; each was checked by hand. */
static gboolean
are_known_equal (const char *a, const char *b)
{
  static const char *const pairs[][2] = {
    { "I", "R = I" },
    { "\\pi \\sqrt{2}", "\\pi\\sqrt{2}" },
    { "\\ln 2", "\\ln(2)" },
    { "\\dfrac{1}{2}", "\\frac{1}{2}" },
    { "\\dfrac{\\pi}{2}", "\\frac{\\pi}{2}" },
    { "2 A x", "2Ax" },
    { "Yes", "yes" },
    { "No", "no" },
    { "2 + 3\\sqrt{2}", "3\\sqrt{2} + 2" },
    { "\\dfrac{20}{3}", "\\frac{20}{3}" },
    { "\\dfrac{3}{4}", "\\frac{3}{4}" },
    { "45", "45^\\circ" },
    { "60", "60^\\circ" },
    { "90", "90^\\circ" },
    { "0.90", "\\dfrac{9}{10}" },
    { "n - 1", "n-1" },
    { "0", "\\mathbf{0}" },
    { "0", "x_{pp} = 0" },
    { "0", "y = 0" },
    { "\\mathbf{0}", "x_{pp} = 0" },
    { "\\mathbf{0}", "y = 0" },
    { "x_{pp} = 0", "y = 0" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (pairs); i++)
    if ((g_str_equal (a, pairs[i][0]) && g_str_equal (b, pairs[i][1]))
        || (g_str_equal (b, pairs[i][0]) && g_str_equal (a, pairs[i][1])))
      return TRUE;
  return FALSE;
}

static void
test_deepmath_pairs (void)
{
  g_autoptr (GPtrArray) rows = read_rows ("rlvr/deepmath/train.jsonl.gz");
  g_autoptr (PlumbReward) reward = make_number ();
  g_autoptr (GHashTable) distinct = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree const char **answers = NULL;
  gint64 start = g_get_monotonic_time ();
  guint n, false_matches = 0;

  if (rows == NULL)
    return;
  for (guint i = 0; i < rows->len; i++)
    g_hash_table_add (distinct, (gpointer)text_of (rows, i, "answer"));
  answers = (const char **)g_hash_table_get_keys_as_array (distinct, &n);
  for (guint i = 0; i < n; i++)
    for (guint k = i + 1; k < n; k++)
      if (score_box (reward, answers[i], answers[k]) != 0 && !are_known_equal (answers[i], answers[k]))
        {
          g_printerr ("# %s is no %s\n", answers[i], answers[k]);
          false_matches++;
        }
  g_test_message ("%u pairs in %.1f s", n * (n - 1) / 2,
                  (double)(g_get_monotonic_time () - start) / G_USEC_PER_SEC);
  g_assert_cmpuint (false_matches, ==, 0);
}

/* Solutions by models against the labels they came with. */
static void
test_model_solutions (void)
{
  static const char *const sets[] = { "rlvr/gsm8k/test.jsonl", "rlvr/gsm8k/train.jsonl" };
  g_autoptr (GPtrArray) rows = read_rows ("preference/gsm8k_model_solutions/kto.jsonl.gz");
  g_autoptr (PlumbReward) reward = make_number ();
  g_autoptr (GHashTable) answers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  guint agree = 0, judged = 0;

  if (rows == NULL)
    return;
  for (gsize s = 0; s < G_N_ELEMENTS (sets); s++)
    {
      g_autoptr (GPtrArray) problems = read_rows (sets[s]);

      for (guint i = 0; problems != NULL && i < problems->len; i++)
        g_hash_table_insert (answers, g_strdup (text_of (problems, i, "question")),
                             g_strdup (text_of (problems, i, "answer")));
    }
  for (guint i = 0; i < rows->len; i++)
    {
      JsonObject *row = json_node_get_object (g_ptr_array_index (rows, i));
      const char *answer = g_hash_table_lookup (answers, text_of (rows, i, "prompt"));
      gboolean right;

      if (answer == NULL)
        continue;
      judged++;
      right = score (reward, text_of (rows, i, "completion"), answer) == 1;
      agree += right == json_object_get_boolean_member (row, "label");
      if (right != json_object_get_boolean_member (row, "label"))
        g_test_message ("row %u scored %d: %.60s ... %s", i + 1, right, answer,
                        g_strrstr (text_of (rows, i, "completion"), "\n"));
    }
  g_test_message ("%u of %u rows agree", agree, judged);
  g_assert_cmpuint (judged, >=, rows->len * 99 / 100);
  g_assert_cmpuint (agree * 1000, >=, judged * 995);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/number/forms", test_forms);
  g_test_add_func ("/number/hostile", test_hostile);
  g_test_add_func ("/number/deepmath", test_deepmath);
  g_test_add_func ("/number/deepmath/pairs", test_deepmath_pairs);
  g_test_add_func ("/number/model-solutions", test_model_solutions);
  return g_test_run ();
}
