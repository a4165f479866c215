/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/error.h"
#include "engine/text/text-file.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/shared.h"
#include "tests/unit/temporary.h"

/* A small byte-level tokenizer with the split of Llama 3 and a few merges, and one with byte
 * fallback. */
static const char byte_level[]
    = "{\"added_tokens\":[{\"id\":300,\"content\":\"<|end|>\",\"special\":true,\"normalized\":"
      "false},"
      " {\"id\":301,\"content\":\"<tool>\",\"special\":false,\"normalized\":false}],"
      "\"normalizer\":{\"type\":\"NFC\"},"
      "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
      "{\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"
      "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|"
      "\\\\s+\"},\"behavior\":\"Isolated\",\"invert\":false},"
      "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"
      "\"decoder\":{\"type\":\"ByteLevel\"},"
      "\"model\":{\"type\":\"BPE\",\"ignore_merges\":%s,\"vocab\":{%s,"
      "\"he\":256,\"ll\":257,\"hell\":258,\"\xc4\xa0w\":259,\"hello\":260},"
      "\"merges\":[\"h e\",[\"l\",\"l\"],\"he ll\",\"\xc4\xa0 w\"]}}";

static char *
byte_vocabulary (void)
{
  GString *vocab = g_string_new (NULL);
  guint hidden = 0;

  for (guint b = 0; b < 256; b++)
    {
      gboolean printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      char c[8] = { 0 };

      g_unichar_to_utf8 (printable ? b : 256 + hidden++, c);
      g_string_append_printf (vocab, "%s\"%s%s\":%u", b > 0 ? "," : "",
                              *c == '"' || *c == '\\' ? "\\" : "", c, b);
    }
  return g_string_free (vocab, FALSE);
}

static void
write_file (const char *folder, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

static PlumbTokenizer *
load_text (const char *json, GError **error)
{
  g_autofree char *folder = temporary_folder ();
  PlumbTokenizer *tokenizer;

  write_file (folder, "tokenizer.json", json);
  tokenizer = plumb_tokenizer_load (folder, error);
  remove_folder (folder);
  return tokenizer;
}

static PlumbTokenizer *
load_byte_level (gboolean ignore_merges)
{
  g_autofree char *vocab = byte_vocabulary ();
  g_auto (GStrv) pieces = g_strsplit (byte_level, "%s", 3);
  g_autofree char *json = g_strconcat (pieces[0], ignore_merges ? "true" : "false", pieces[1],
                                       vocab, pieces[2], NULL);
  g_autoptr (GError) error = NULL;
  PlumbTokenizer *tokenizer = load_text (json, &error);

  g_assert_no_error (error);
  return tokenizer;
}

static void
assert_ids (PlumbTokenizer *tokenizer,
            const char *text,
            gssize length,
            gboolean special,
            const gint32 *expected,
            gsize n)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GError) error = NULL;

  g_assert_true (plumb_tokenizer_encode (tokenizer, text, length, special, ids, &error));
  g_assert_no_error (error);
  if (ids->len != n || (n > 0 && memcmp (ids->data, expected, n * sizeof (gint32)) != 0))
    {
      for (guint i = 0; i < MAX (ids->len, n); i++)
        g_printerr ("%d/%d ", i < ids->len ? g_array_index (ids, gint32, i) : -1,
                    i < n ? expected[i] : -1);
      g_error ("other ids for: %s", text);
    }
}
#define ASSERT_IDS(tokenizer, text, ...)                                                           \
  do                                                                                               \
    {                                                                                              \
      const gint32 expected_[] = { __VA_ARGS__ };                                                  \
      assert_ids (tokenizer, text, -1, FALSE, expected_, G_N_ELEMENTS (expected_));                \
    }                                                                                              \
  while (0)

static void
assert_text (
    PlumbTokenizer *tokenizer, const gint32 *ids, gsize n, gboolean skip, const char *expected)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = plumb_tokenizer_decode (tokenizer, ids, n, skip, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (text, ==, expected);
}

static void
test_byte_level (void)
{
  g_autoptr (PlumbTokenizer) tokenizer = load_byte_level (FALSE);
  g_autoptr (PlumbTokenizer) whole = load_byte_level (TRUE);
  const gint32 cut[] = { 'a', 0xe2, 0x96, 'b', 0xff, 0xff, 0xe2, 0x96, 0x81 };
  const gint32 special[] = { 'a', 300, 'b', 301 };

  ASSERT_IDS (tokenizer, "hello world", 258, 'o', 259, 'o', 'r', 'l', 'd');
  /* The whole word is a token, though no merge makes it. */
  ASSERT_IDS (whole, "hello world", 260, 259, 'o', 'r', 'l', 'd');
  ASSERT_IDS (tokenizer, "a<|end|>hell<tool>", 'a', 300, 258, 301);
  ASSERT_IDS (tokenizer, "1234", '1', '2', '3', '4');
  /* NFC: e and an accent become one character of two bytes. */
  ASSERT_IDS (tokenizer, "e\xcc\x81", 0xc3, 0xa9);
  ASSERT_IDS (tokenizer, "", );
  assert_ids (tokenizer, "a\0b", 3, FALSE, (gint32[]){ 'a', 0, 'b' }, 3);
  assert_text (tokenizer, cut, G_N_ELEMENTS (cut), FALSE,
               "a\xef\xbf\xbd"
               "b\xef\xbf\xbd\xef\xbf\xbd\xe2\x96\x81");
  assert_text (tokenizer, special, 4, FALSE, "a<|end|>b<tool>");
  assert_text (tokenizer, special, 4, TRUE, "ab<tool>");
  g_assert_cmpuint (plumb_tokenizer_vocab_size (tokenizer), ==, 302);
  g_assert_cmpint (plumb_tokenizer_find (tokenizer, "<|end|>"), ==, 300);
  g_assert_true (plumb_tokenizer_is_special (tokenizer, 300));
  g_assert_false (plumb_tokenizer_is_special (tokenizer, 301));
}

static void
assert_after (PlumbTokenizer *tokenizer, const gint32 *before, gsize n_before, const gint32 *ids, gsize n,
              const char *want)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text
      = plumb_tokenizer_decode_after (tokenizer, before, n_before, ids, n, TRUE, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (text, ==, want);
}

static void
test_byte_fallback (void)
{
  static const char json[]
      = "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],"
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
        "\"\xe2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
        "\"\xe2\x96\x81\"}]},\"pre_tokenizer\":null,"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
        "\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\","
        "\"ids\":[1],\"tokens\":[\"<s>\"]}}},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
        "{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":"
        "\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
        "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"vocab\":{"
        "\"<unk>\":0,\"<s>\":1,\"\xe2\x96\x81\":2,\"a\":3,\"b\":4,\"\xe2\x96\x81"
        "a\":5,\"ab\":6,"
        "\"<0xC3>\":7,\"<0xA9>\":8},\"merges\":[\"a b\",\"\xe2\x96\x81 a\"]}}";
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTokenizer) tokenizer = load_text (json, &error);
  const gint32 ids[] = { 1, 2, 6, 5, 7, 8 };

  g_assert_no_error (error);
  ASSERT_IDS (tokenizer, "ab a", 2, 6, 5);
  ASSERT_IDS (tokenizer, "a\xc3\xa9", 5, 7, 8);
  ASSERT_IDS (tokenizer, "az", 5, 0);
  assert_ids (tokenizer, "a", -1, TRUE, (gint32[]){ 1, 5 }, 2);
  assert_ids (tokenizer, "", -1, TRUE, (gint32[]){ 1 }, 1);
  assert_text (tokenizer, ids, 6, TRUE, "ab a\xc3\xa9");
  assert_text (tokenizer, ids, 5, TRUE, "ab a\xef\xbf\xbd");
  /* A blank is stripped at the start of a text, not in the middle of one. */
  assert_text (tokenizer, ids + 3, 1, TRUE, "a");
  assert_after (tokenizer, ids, 3, ids + 3, 1, " a");
  assert_after (tokenizer, ids, 1, ids + 3, 1, "a");
  assert_after (tokenizer, ids, 0, ids + 3, 1, "a");
  assert_after (tokenizer, ids, 3, ids, 0, "");
  assert_after (tokenizer, ids, 5, ids + 5, 1, "\xef\xbf\xbd");
}

/* The plain search and the heap must merge alike, also where equal pairs overlap. */
static void
test_long_pieces (void)
{
  static const char json[]
      = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"aa\":2,\"ab\":3,\"aab\":4,"
        "\"aaaa\":5,\"bb\":6},\"merges\":[\"a b\",\"a a\",\"aa aa\",\"aa b\",\"b b\"]}}";
  g_autoptr (PlumbTokenizer) tokenizer = load_text (json, NULL);
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);

  for (int round = 0; round < 300; round++)
    {
      /* Twice the text around a pair that never merges across: "b" then "a". */
      gsize half = g_rand_int_range (rand, 2, 40);
      g_autofree char *text = g_malloc0 (half + 1), *twice = NULL;
      g_autoptr (GArray) once = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_autoptr (GArray) both = g_array_new (FALSE, FALSE, sizeof (gint32));

      for (gsize i = 0; i < half; i++)
        text[i] = g_rand_boolean (rand) ? 'a' : 'b';
      text[0] = 'a';
      text[half - 1] = 'b';
      twice = g_strconcat (text, text, text, NULL);
      g_assert_true (plumb_tokenizer_encode (tokenizer, text, -1, FALSE, once, NULL));
      g_assert_true (plumb_tokenizer_encode (tokenizer, twice, -1, FALSE, both, NULL));
      g_assert_cmpuint (both->len, ==, 3 * once->len);
      for (guint i = 0; i < both->len; i++)
        g_assert_cmpint (g_array_index (both, gint32, i), ==,
                         g_array_index (once, gint32, i % once->len));
    }
}

static void
test_bytes (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autofree char *copy = g_build_filename (folder, "copy", NULL);
  g_autoptr (PlumbTokenizer) tokenizer = NULL, again = NULL;
  g_autoptr (GError) error = NULL;
  gint32 ids[260];
  gsize n, length;
  const gint32 *eos;
  g_autofree char *text = NULL;

  g_assert_true (plumb_tokenizer_write_bytes (folder, 260, &error));
  tokenizer = plumb_tokenizer_load (folder, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plumb_tokenizer_vocab_size (tokenizer), ==, 260);
  g_assert_cmpint (plumb_tokenizer_bos (tokenizer), ==, 256);
  eos = plumb_tokenizer_eos (tokenizer, &n);
  g_assert_cmpuint (n, ==, 1);
  g_assert_cmpint (eos[0], ==, 257);
  ASSERT_IDS (tokenizer, "1+2=\n\"\\ \xc3\xa9", '1', '+', '2', '=', '\n', '"', '\\', ' ', 0xc3,
              0xa9);
  assert_ids (tokenizer, "12", -1, TRUE, (gint32[]){ 256, '1', '2' }, 3);
  for (int i = 0; i < 260; i++)
    ids[i] = i;
  text = plumb_tokenizer_decode_full (tokenizer, ids, 128, FALSE, &length, &error);
  g_assert_cmpuint (length, ==, 128);
  for (int i = 0; i < 128; i++)
    g_assert_cmpint (text[i], ==, i);
  assert_text (tokenizer, ids, 1, FALSE, "\xef\xbf\xbd"); /* a NUL in a C string */
  assert_text (tokenizer, ids + 256, 4, FALSE, "<bos><eos><spare0><spare1>");
  assert_text (tokenizer, ids + 256, 4, TRUE, "");
  ids[0] = 260;
  g_assert_null (plumb_tokenizer_decode (tokenizer, ids, 1, FALSE, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_clear_error (&error);
  g_assert_true (plumb_tokenizer_copy_files (tokenizer, copy, &error));
  again = plumb_tokenizer_load (copy, &error);
  g_assert_no_error (error);
  g_assert_cmpint (plumb_tokenizer_bos (again), ==, 256);
  remove_folder (folder);
}

static void
test_refused (void)
{
  const struct
  {
    const char *json, *message;
  } cases[] = {
    { "", "line 1" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}", "ends too early" },
    { "[]", "object" },
    { "{}", "model" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", "WordPiece" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", "empty" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}", "range" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999}}}", "range" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\":1}}}", "twice" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0}}}", "id of another" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "lacks" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", "pair" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", "pair" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"end_of_word_suffix\":\"</w>\"}}",
      "suffix" },
    { "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
      "BertNormalizer" },
    { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
      "\"Isolated\"},"
      "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
      "regular expression" },
    { "{\"added_tokens\":[{\"content\":\"x\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
      "id" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbTokenizer) tokenizer = load_text (cases[i].json, &error);

      g_assert_null (tokenizer);
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
      if (strstr (error->message, cases[i].message) == NULL)
        g_error ("case %" G_GSIZE_FORMAT ": %s", i, error->message);
      g_assert_nonnull (strstr (error->message, "tokenizer.json"));
    }
}

static void
test_bad_text (void)
{
  static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}";
  g_autoptr (PlumbTokenizer) tokenizer = load_text (json, NULL);
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GError) error = NULL;

  g_assert_true (plumb_tokenizer_encode (tokenizer, "a", -1, FALSE, ids, &error));
  g_assert_false (plumb_tokenizer_encode (tokenizer, "a\xff", -1, FALSE, ids, &error));
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_clear_error (&error);
  g_assert_false (plumb_tokenizer_encode (tokenizer, "ab", -1, FALSE, ids, &error));
  g_assert_nonnull (strstr (error->message, "\"b\""));
  g_assert_cmpuint (ids->len, ==, 1); /* left as it was */
}

/* --- real tokenizers, where they are at hand */

static void
check_vector (PlumbTokenizer *tokenizer, JsonObject *row, gboolean round_trip)
{
  const char *key = json_object_has_member (row, "ids_added") ? "ids_added" : "ids";
  JsonArray *array = json_object_get_array_member (row, key);
  const char *text = json_object_get_string_member (row, "text");
  gsize n = json_array_get_length (array);
  g_autofree gint32 *expected = g_new (gint32, n + 1);
  g_autofree char *decoded = NULL, *normal = NULL, *again = NULL;

  for (gsize i = 0; i < n; i++)
    expected[i] = json_array_get_int_element (array, i);
  /* The vectors of the two models stand behind a BOS that is not in their text. */
  if (n > 0 && expected[0] == plumb_tokenizer_bos (tokenizer) && *text != '<')
    assert_ids (tokenizer, text, -1, TRUE, expected, n);
  else
    assert_ids (tokenizer, text, -1, FALSE, expected, n);
  if (!round_trip)
    return;
  decoded = plumb_tokenizer_decode (tokenizer, expected, n, TRUE, NULL);
  if (g_strcmp0 (key, "ids_added") == 0)
    return; /* special tokens are left out of the text */
  normal = g_utf8_normalize (text, -1, G_NORMALIZE_NFC);
  again = g_utf8_normalize (decoded, -1, G_NORMALIZE_NFC);
  g_assert_cmpstr (again, ==, normal);
}

static void
check_lines (PlumbTokenizer *tokenizer, const char *path, gsize least)
{
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  gsize n = 0;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (gsize i = 0; lines[i] != NULL; i++)
    {
      g_autoptr (JsonParser) parser = json_parser_new ();

      if (*lines[i] == '\0')
        continue;
      g_assert_true (json_parser_load_from_data (parser, lines[i], -1, NULL));
      check_vector (tokenizer, json_node_get_object (json_parser_get_root (parser)), TRUE);
      n++;
    }
  g_assert_cmpuint (n, >=, least);
}

static void
test_real_vectors (gconstpointer data)
{
  const char *name = data;
  g_autofree char *folder_name = g_strdup_printf ("tokenizers/%s", name);
  g_autofree char *vectors_name = g_strdup_printf ("tokenizers/vectors/%s.jsonl", name);
  g_autofree char *folder = shared_file (folder_name);
  g_autofree char *vectors = folder != NULL ? shared_file (vectors_name) : NULL;
  g_autoptr (PlumbTokenizer) tokenizer = NULL;
  g_autoptr (GError) error = NULL;

  if (vectors == NULL)
    return;
  tokenizer = plumb_tokenizer_load (folder, &error);
  g_assert_no_error (error);
  check_lines (tokenizer, vectors, 120);
}

static void
test_real_model (gconstpointer data)
{
  g_autofree char *name = g_strdup_printf ("models/%s", (const char *)data);
  g_autofree char *folder = shared_file (name), *vectors = NULL;
  g_autoptr (PlumbTokenizer) tokenizer = NULL;
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GError) error = NULL;
  JsonArray *rows;
  gsize n;

  if (folder == NULL)
    return;
  tokenizer = plumb_tokenizer_load (folder, &error);
  g_assert_no_error (error);
  vectors = g_build_filename (folder, "tokenizer_vectors.json", NULL);
  g_assert_true (json_parser_load_from_file (parser, vectors, NULL));
  rows = json_node_get_array (json_parser_get_root (parser));
  g_assert_cmpuint (json_array_get_length (rows), >, 20);
  for (guint i = 0; i < json_array_get_length (rows); i++)
    check_vector (tokenizer, json_array_get_object_element (rows, i), FALSE);
  g_assert_cmpint (plumb_tokenizer_bos (tokenizer), ==, 1);
  g_assert_cmpint (plumb_tokenizer_eos (tokenizer, &n)[0], ==, 2);
  g_assert_cmpuint (n, ==, 1);
}

/* A flag of its tokenizer_config.json asks to clean up spaces; text must survive all the same. */
static void
test_spaces_stay (void)
{
  static const char *const texts[] = { "wait , what ?", "it is n't so , they 're late !",
                                       "a  b   c\t d \n\n e ", "print( x . y , [1 , 2] )" };
  g_autofree char *folder = shared_file ("tokenizers/llama3");
  g_autoptr (PlumbTokenizer) tokenizer = NULL;

  if (folder == NULL)
    return;
  tokenizer = plumb_tokenizer_load (folder, NULL);
  ASSERT_IDS (tokenizer, "wait , what ?", 11748, 1174, 1148, 949);
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

      g_assert_true (plumb_tokenizer_encode (tokenizer, texts[i], -1, FALSE, ids, NULL));
      assert_text (tokenizer, (gpointer)ids->data, ids->len, FALSE, texts[i]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tokenizer/byte-level", test_byte_level);
  g_test_add_func ("/tokenizer/byte-fallback", test_byte_fallback);
  g_test_add_func ("/tokenizer/long-pieces", test_long_pieces);
  g_test_add_func ("/tokenizer/bytes", test_bytes);
  g_test_add_func ("/tokenizer/refused", test_refused);
  g_test_add_func ("/tokenizer/bad-text", test_bad_text);
  g_test_add_data_func ("/tokenizer/real/gpt2", "gpt2", test_real_vectors);
  g_test_add_data_func ("/tokenizer/real/llama3", "llama3", test_real_vectors);
  g_test_add_data_func ("/tokenizer/real/qwen3", "qwen3", test_real_vectors);
  g_test_add_data_func ("/tokenizer/real/stories260K", "stories260K", test_real_model);
  g_test_add_data_func ("/tokenizer/real/babyllama361", "babyllama361", test_real_model);
  g_test_add_func ("/tokenizer/real/spaces-stay", test_spaces_stay);
  return g_test_run ();
}
