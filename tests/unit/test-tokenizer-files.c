/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers of other kinds than byte-level BPE: SentencePiece models, tiktoken files, Unigram; rules of added tokens;
 * text as ids arrive; and properties that hold for any text. */
#include "config.h"

#include <string.h>

#include <json-glib/json-glib.h>

#include "engine/core/error.h"
#include "engine/text/text-file.h"
#include "engine/text/tokenizer-private.h"
#include "tests/unit/shared.h"
#include "tests/unit/temporary.h"

#define MARK "\xe2\x96\x81"

static PlumbTokenizer *
load_bytes (const char *name, const char *bytes, gsize length, GError **error)
{
  g_autofree char *folder = temporary_folder ();
  g_autofree char *path = g_build_filename (folder, name, NULL);
  PlumbTokenizer *tokenizer;

  g_assert_true (g_file_set_contents (path, bytes, length, NULL));
  tokenizer = plumb_tokenizer_load (folder, error);
  remove_folder (folder);
  return tokenizer;
}

static PlumbTokenizer *
load_json (const char *json)
{
  g_autoptr (GError) error = NULL;
  PlumbTokenizer *tokenizer = load_bytes ("tokenizer.json", json, strlen (json), &error);

  g_assert_no_error (error);
  return tokenizer;
}

static void
assert_ids (PlumbTokenizer *tokenizer, gboolean plain, const char *text, const char *expected)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (GString) shown = g_string_new (NULL);
  g_autoptr (GError) error = NULL;

  g_assert_true (plain ? plumb_tokenizer_encode_plain (tokenizer, text, -1, ids, &error)
                       : plumb_tokenizer_encode (tokenizer, text, -1, FALSE, ids, &error));
  g_assert_no_error (error);
  for (guint i = 0; i < ids->len; i++)
    g_string_append_printf (shown, "%s%d", i > 0 ? " " : "", g_array_index (ids, gint32, i));
  if (!g_str_equal (shown->str, expected))
    g_error ("\"%s\" has ids %s, expected %s", text, shown->str, expected);
}

static void
assert_text (PlumbTokenizer *tokenizer, const gint32 *ids, gsize n, const char *expected)
{
  g_autofree char *text = plumb_tokenizer_decode (tokenizer, ids, n, TRUE, NULL);

  g_assert_cmpstr (text, ==, expected);
}

/* --- a SentencePiece model, byte by byte */

static void
put_varint (GString *out, guint64 value)
{
  for (; value >= 0x80; value >>= 7)
    g_string_append_c (out, (char)(value | 0x80));
  g_string_append_c (out, (char)value);
}

static void
put_bytes (GString *out, guint number, const char *bytes, gsize length)
{
  put_varint (out, number << 3 | 2);
  put_varint (out, length);
  g_string_append_len (out, bytes, length);
}

static void
put_piece (GString *model, const char *text, float score, guint kind)
{
  g_autoptr (GString) piece = g_string_new (NULL);
  char bits[4];

  memcpy (bits, &score, 4);
  put_bytes (piece, 1, text, strlen (text));
  put_varint (piece, 2 << 3 | 5);
  g_string_append_len (piece, bits, 4);
  put_varint (piece, 3 << 3);
  put_varint (piece, kind);
  put_bytes (model, 1, piece->str, piece->len);
}

/* model_type 1 Unigram, 2 BPE; extra blanks stay. */
static GString *
make_model (guint type, gboolean byte_fallback)
{
  GString *model = g_string_new (NULL);
  g_autoptr (GString) trainer = g_string_new (NULL);
  g_autoptr (GString) normalizer = g_string_new (NULL);

  put_piece (model, "<unk>", 0, 2);
  put_piece (model, "<s>", 0, 3);
  put_piece (model, "</s>", 0, 3);
  put_piece (model, "<tool>", 0, 4);
  if (byte_fallback)
    {
      put_piece (model, "<0xC3>", 0, 6);
      put_piece (model, "<0xA9>", 0, 6);
    }
  put_varint (trainer, 3 << 3);
  put_varint (trainer, type);
  put_varint (trainer, 35 << 3);
  put_varint (trainer, byte_fallback);
  put_bytes (model, 2, trainer->str, trainer->len);
  put_varint (normalizer, 4 << 3);
  put_varint (normalizer, 0);
  put_bytes (model, 3, normalizer->str, normalizer->len);
  return model;
}

static void
test_sentencepiece_bpe (void)
{
  g_autoptr (GString) model = make_model (2, TRUE);
  g_autoptr (PlumbTokenizer) tokenizer = NULL;
  g_autoptr (GError) error = NULL;
  gsize n;

  put_piece (model, "ab", -1, 1);            /* 6 */
  put_piece (model, "bc", -2, 1);            /* 7 */
  put_piece (model, MARK "ab", -3, 1);       /* 8 */
  put_piece (model, "a", -4, 1);             /* 9 */
  put_piece (model, "b", -5, 1);             /* 10 */
  put_piece (model, MARK, -6, 1);            /* 11; "c" is no piece of its own */
  tokenizer = load_bytes ("tokenizer.model", model->str, model->len, &error);
  g_assert_no_error (error);
  assert_ids (tokenizer, FALSE, "ab ab", "8 8");
  assert_ids (tokenizer, FALSE, "bc", "11 7");      /* b and the unknown c make a piece */
  assert_ids (tokenizer, FALSE, "abc", "8 0");      /* the better merge comes first */
  assert_ids (tokenizer, FALSE, "  ab", "11 11 8");
  assert_ids (tokenizer, FALSE, "\xc3\xa9", "11 4 5");
  assert_ids (tokenizer, FALSE, "zz", "11 0");      /* unknown neighbours are one */
  assert_ids (tokenizer, FALSE, "", "");
  assert_ids (tokenizer, FALSE, "a</s>b", "11 9 2 10"); /* the blank is only put in front of the whole */
  assert_ids (tokenizer, TRUE, "a<tool>b", "11 9 3 10");
  assert_ids (tokenizer, TRUE, "</s>", "11 0");
  assert_text (tokenizer, (gint32[]){ 8, 8, 4, 5 }, 4, "ab ab\xc3\xa9");
  assert_text (tokenizer, (gint32[]){ 1, 11, 8, 2 }, 4, " ab");
  g_assert_cmpint (plumb_tokenizer_bos (tokenizer), ==, 1);
  g_assert_cmpint (plumb_tokenizer_eos (tokenizer, &n)[0], ==, 2);
}

static void
test_sentencepiece_unused (void)
{
  g_autoptr (GString) model = make_model (2, FALSE);
  g_autoptr (PlumbTokenizer) tokenizer = NULL;

  put_piece (model, "ab", -1, 5);  /* 4: made on the way, and taken apart if it stays */
  put_piece (model, "abc", -2, 1); /* 5 */
  put_piece (model, "a", -3, 1);
  put_piece (model, "b", -4, 1);
  put_piece (model, "c", -5, 1);
  put_piece (model, MARK, -6, 1); /* 9 */
  tokenizer = load_bytes ("tokenizer.model", model->str, model->len, NULL);
  assert_ids (tokenizer, FALSE, "abc", "9 5");
  assert_ids (tokenizer, FALSE, "ab", "9 6 7");
}

static void
test_sentencepiece_unigram (void)
{
  g_autoptr (GString) model = make_model (1, FALSE);
  g_autoptr (PlumbTokenizer) tokenizer = NULL;

  put_piece (model, MARK, -1, 1); /* 4 */
  put_piece (model, "a", -2, 1);
  put_piece (model, "ab", -5, 1); /* 6: a and b together are better */
  put_piece (model, "b", -2, 1);
  put_piece (model, "abab", -6.5f, 1); /* 8 */
  tokenizer = load_bytes ("spiece.model", model->str, model->len, NULL);
  g_assert_nonnull (tokenizer);
  assert_ids (tokenizer, FALSE, "ab", "4 5 7");
  assert_ids (tokenizer, FALSE, "abab", "4 8");
  assert_ids (tokenizer, FALSE, "axyb", "4 5 0 7");
}

/* What the user defined stands in the lattice with a score that nearly always wins; blanks next to it stay as they are
 * squeezed. The ids are those of the sentencepiece package, as are those of the text. */
static void
test_sentencepiece_defined (void)
{
  g_autoptr (GString) model = make_model (1, FALSE);
  g_autoptr (PlumbTokenizer) tokenizer = NULL;

  put_piece (model, "ab", 0, 4); /* 4 */
  put_piece (model, "a", -1, 1);
  put_piece (model, "b", -1, 1);
  put_piece (model, "abc", -0.05f, 1); /* 7 */
  put_piece (model, "c", -3, 1);
  put_piece (model, MARK, -2, 1); /* 9 */
  tokenizer = load_bytes ("tokenizer.model", model->str, model->len, NULL);
  g_assert_nonnull (tokenizer);
  assert_ids (tokenizer, FALSE, "ab", "9 4");
  assert_ids (tokenizer, FALSE, "abc", "9 7"); /* one piece that costs less than 0.1 */
  assert_ids (tokenizer, FALSE, "cab<tool>", "9 8 4 3");
  assert_ids (tokenizer, FALSE, "b a", "9 6 9 5");
}

/* Squeezed blanks: also marks in the text at its end, and NULs are characters as others are. */
static void
test_sentencepiece_squeezed (void)
{
  g_autoptr (GString) model = g_string_new (NULL), normalizer = g_string_new (NULL);
  g_autoptr (PlumbTokenizer) tokenizer = NULL;
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  put_piece (model, "<unk>", 0, 2);
  put_piece (model, MARK, -1, 1);
  put_piece (model, "a", -1, 1);
  put_piece (model, MARK "a", -1.5f, 1); /* 3 */
  put_varint (normalizer, 4 << 3);
  put_varint (normalizer, 1);
  put_bytes (model, 3, normalizer->str, normalizer->len);
  tokenizer = load_bytes ("tokenizer.model", model->str, model->len, NULL);
  g_assert_nonnull (tokenizer);
  assert_ids (tokenizer, FALSE, "  a   a  ", "3 3");
  assert_ids (tokenizer, FALSE, "a " MARK " ", "3");
  assert_ids (tokenizer, FALSE, " " MARK " ", "");
  g_assert_true (plumb_tokenizer_encode_plain (tokenizer, "a \0 a ", 6, ids, NULL));
  g_assert_cmpuint (ids->len, ==, 4); /* the second is the mark, the third an unknown character */
  g_assert_cmpint (g_array_index (ids, gint32, 2), ==, 0);
  g_assert_cmpint (g_array_index (ids, gint32, 3), ==, 3);
  assert_text (tokenizer, (gint32[]){ 1, 1, 3, 3 }, 4, "a a");
}

static void
test_damaged_models (void)
{
  g_autoptr (GString) model = make_model (2, FALSE);
  gsize refused = 0;

  put_piece (model, "a", -1, 1);
  for (gsize length = 0; length < model->len; length++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (PlumbTokenizer) tokenizer
          = load_bytes ("tokenizer.model", model->str, length, &error);

      g_assert_true (tokenizer != NULL || g_error_matches (error, PLUMB_ERROR, PLUMB_ERROR_INVALID));
      refused += tokenizer == NULL;
    }
  g_assert_cmpuint (refused, >, model->len / 2);
}

/* --- Unigram and normalizers of tokenizer.json */

static void
test_unigram_json (void)
{
  g_autoptr (PlumbTokenizer) tokenizer = load_json (
      "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":"
      "\"Lowercase\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}]},"
      "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\",\"prepend_scheme\":"
      "\"always\"},\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\"},"
      "\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"</s>\",2],\"cls\":[\"<s>\",1]},"
      "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"<s>\",0],[\"</s>\",0],"
      "[\"" MARK "fi\",-1.5],[\"" MARK "\",-3],[\"f\",-3],[\"i\",-3],[\"x\",-4]]}}");
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  assert_ids (tokenizer, FALSE, "\xef\xac\x81  FI", "3 3"); /* the ligature falls apart */
  assert_ids (tokenizer, FALSE, "fix", "3 7");
  assert_ids (tokenizer, FALSE, "qz", "4 0");
  assert_text (tokenizer, (gint32[]){ 3, 7, 3 }, 3, "fix fi");
  g_assert_true (plumb_tokenizer_encode (tokenizer, "x", -1, TRUE, ids, NULL));
  g_assert_cmpint (g_array_index (ids, gint32, 0), ==, 1);
  g_assert_cmpint (g_array_index (ids, gint32, ids->len - 1), ==, 2);
}

/* --- tiktoken */

static void
test_tiktoken (void)
{
  /* a b c ab abc, and a space */
  static const char ranks[] = "YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYWJj 4\nIA== 5\nYmM= 6\n";
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTokenizer) tokenizer
      = load_bytes ("cl100k_small.tiktoken", ranks, sizeof ranks - 1, &error);
  g_autoptr (PlumbTokenizer) unknown = NULL;

  g_assert_no_error (error);
  assert_ids (tokenizer, FALSE, "abc bc", "4 5 6");
  assert_ids (tokenizer, FALSE, "abab", "3 3");
  assert_ids (tokenizer, FALSE, "a<|endoftext|>b", "0 100257 1");
  assert_text (tokenizer, (gint32[]){ 4, 5, 6 }, 3, "abc bc");
  unknown = load_bytes ("other.tiktoken", ranks, sizeof ranks - 1, &error);
  g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
  g_assert_nonnull (strstr (error->message, "cl100k"));
}

/* --- rules of added tokens */

static PlumbTokenizer *
load_added (void)
{
  return load_json (
      "{\"added_tokens\":[{\"id\":10,\"content\":\"<l>\",\"lstrip\":true,\"special\":true},"
      "{\"id\":11,\"content\":\"<r>\",\"rstrip\":true,\"special\":true},{\"id\":12,\"content\":\"[W]\","
      "\"single_word\":true},{\"id\":13,\"content\":\"<ll>\"},{\"id\":14,\"content\":\"<l>x\"},"
      "{\"id\":15,\"content\":\"A b\",\"normalized\":true},{\"id\":16,\"content\":\"  \"}],"
      "\"normalizer\":{\"type\":\"Lowercase\"},"
      "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\" \":3,\"x\":4,"
      "\"<\":5,\">\":6,\"l\":7,\"[\":8,\"]\":9},\"merges\":[]}}");
}

static void
test_added_rules (void)
{
  g_autoptr (PlumbTokenizer) tokenizer = load_added ();

  assert_ids (tokenizer, FALSE, "a <l> b", "1 10 3 2");
  assert_ids (tokenizer, FALSE, "a <r> \n b", "1 3 11 2");
  assert_ids (tokenizer, FALSE, "<r> <l>", "11 10");   /* blanks are swallowed once */
  assert_ids (tokenizer, FALSE, "<l>x", "14");         /* the longest wins */
  assert_ids (tokenizer, FALSE, "a [W] b", "1 3 12 3 2");
  assert_ids (tokenizer, FALSE, "a[W]b", "1 8 0 9 2"); /* within a word it is none */
  assert_ids (tokenizer, FALSE, "a\xe2\x80\x8d[W]", "1 0 8 0 9");
  assert_ids (tokenizer, FALSE, "a B", "15");          /* looked for in normalized text, and as such */
  assert_ids (tokenizer, TRUE, "a<l><ll>  b", "1 5 7 6 5 7 7 6 16 2");
  g_assert_cmpstr (plumb_tokenizer_find_control (tokenizer, "ab <ll>", -1, FALSE), ==, "<ll>");
  g_assert_null (plumb_tokenizer_find_control (tokenizer, "ab  <l", -1, FALSE));
  g_assert_cmpstr (plumb_tokenizer_find_control (tokenizer, "<ll> <r>", -1, TRUE), ==, "<r>");
}

static void
test_eos_ids (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autofree char *json = g_build_filename (folder, "tokenizer.json", NULL);
  g_autofree char *config = g_build_filename (folder, "tokenizer_config.json", NULL);
  g_autofree char *generation = g_build_filename (folder, "generation_config.json", NULL);
  g_autoptr (PlumbTokenizer) tokenizer = NULL;
  const gint32 *eos;
  gsize n;

  g_file_set_contents (json, "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"d\":3}}}", -1, NULL);
  g_file_set_contents (config, "{\"eos_token\":{\"content\":\"b\"},\"bos_token\":null}", -1, NULL);
  g_file_set_contents (generation, "{\"eos_token_id\":[3,1,0],\"bos_token_id\":2}", -1, NULL);
  tokenizer = plumb_tokenizer_load (folder, NULL);
  eos = plumb_tokenizer_eos (tokenizer, &n);
  g_assert_cmpuint (n, ==, 3);
  g_assert_cmpint (eos[0], ==, 1); /* the one to train comes first */
  g_assert_cmpint (eos[1], ==, 3);
  g_assert_cmpint (eos[2], ==, 0);
  g_assert_cmpint (plumb_tokenizer_bos (tokenizer), ==, 2);
  remove_folder (folder);
}

/* --- properties */

/* Below `end`, or one of those that splits treat in a way of their own. */
static gunichar
random_char (GRand *rand, gunichar end)
{
  static const gunichar some[]
      = { ' ', '\n', '\r', '\t', '\'', 's', 'S', 0x17f, 'l', 'L', 'r', 'e', '0', '9', 0xb2, 0x2167, 0xa0, 0x85,
          0x2003, 0x2028, 0x3000, 0x200b, 0x301, 0x308, 0x4e2d, 0x1f680, 0x5d0, 0x939, '.', '_', '<', '|', '>' };
  gunichar c;

  if (g_rand_int_range (rand, 0, 4) > 0)
    return some[g_rand_int_range (rand, 0, G_N_ELEMENTS (some))];
  do
    c = g_rand_int_range (rand, 0, g_rand_boolean (rand) ? 0x300 : (gint32)end);
  while (!g_unichar_validate (c));
  return c;
}

static GString *
random_text (GRand *rand, gunichar end)
{
  GString *text = g_string_new (NULL);
  int n = g_rand_int_range (rand, 0, 40);

  for (int i = 0; i < n; i++)
    g_string_append_unichar (text, random_char (rand, end));
  return text;
}

/* The splits that are written out must cut where their regular expressions do. */
static void
test_scanners (void)
{
  static const char *const patterns[] = { PLUMB_GPT2_PATTERN, PLUMB_CL100K_PATTERN, PLUMB_QWEN2_PATTERN };
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);

  for (gsize p = 0; p < G_N_ELEMENTS (patterns); p++)
    {
      g_autoptr (GRegex) regex = plumb_pre_regex (patterns[p], NULL);
      PlumbScanner scanner = plumb_scanner_find (patterns[p]);

      g_assert_nonnull (scanner);
      for (int round = 0; round < 4000; round++)
        {
          /* The libraries may know different versions of Unicode: only old characters. */
          g_autoptr (GString) text = random_text (rand, 0xc00);
          g_autoptr (GMatchInfo) match = NULL;
          gsize at = 0;
          int start, end;

          g_regex_match_full (regex, text->str, text->len, 0, 0, &match, NULL);
          for (; at < text->len; at += scanner (text->str + at, text->len - at))
            {
              g_assert_true (g_match_info_fetch_pos (match, 0, &start, &end));
              if ((gsize)start != at || (gsize)end != at + scanner (text->str + at, text->len - at))
                g_error ("pattern %" G_GSIZE_FORMAT ", byte %" G_GSIZE_FORMAT ": %s", p, at,
                         g_strescape (text->str, NULL));
              g_match_info_next (match, NULL);
            }
          g_assert_false (g_match_info_matches (match));
        }
    }
}

/* Encode, then decode: the same text, also when it comes id by id. */
static void
assert_round_trip (PlumbTokenizer *tokenizer, const GString *text)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr (PlumbDetokenizer) stream = plumb_detokenizer_new (tokenizer, FALSE);
  g_autoptr (GString) streamed = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  g_autofree char *back = NULL;
  gsize length;

  g_assert_true (plumb_tokenizer_encode (tokenizer, text->str, text->len, FALSE, ids, &error));
  back = plumb_tokenizer_decode_full (tokenizer, (gpointer)ids->data, ids->len, FALSE, &length, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (back, length, text->str, text->len);
  for (guint i = 0; i < ids->len; i++)
    {
      g_assert_true (plumb_detokenizer_push (stream, g_array_index (ids, gint32, i), streamed, NULL));
      g_assert_cmpmem (streamed->str, streamed->len, text->str, streamed->len);
      g_assert_true (((guchar)text->str[streamed->len] & 0xc0) != 0x80); /* no half characters */
    }
  plumb_detokenizer_finish (stream, streamed);
  g_assert_cmpmem (streamed->str, streamed->len, text->str, text->len);
}

static void
test_identity (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  g_autoptr (PlumbTokenizer) tokenizer = NULL;

  g_assert_true (plumb_tokenizer_write_bytes (folder, 260, NULL));
  tokenizer = plumb_tokenizer_load (folder, NULL);
  remove_folder (folder);
  for (int round = 0; round < 5000; round++)
    {
      g_autoptr (GString) text = random_text (rand, 0x110000);

      assert_round_trip (tokenizer, text);
    }
}

static void
test_real_identity (gconstpointer data)
{
  g_autofree char *name = g_strdup_printf ("tokenizers/%s", (const char *)data);
  g_autofree char *folder = shared_file (name);
  g_autoptr (GRand) rand = g_rand_new_with_seed (6);
  g_autoptr (PlumbTokenizer) tokenizer = NULL;

  if (folder == NULL)
    return;
  tokenizer = plumb_tokenizer_load (folder, NULL);
  for (int round = 0; round < 3000; round++)
    {
      g_autoptr (GString) text = random_text (rand, 0x110000);

      assert_round_trip (tokenizer, text);
    }
}

/* After each id, all complete characters have been shown. */
static void
test_stream_pieces (void)
{
  /* the bytes of a rocket and of "a", then one that starts nothing, then a character cut short */
  static const gint32 ids[] = { 0xf0, 0x9f, 0x9a, 0x80, 'a', 0xff, 'b', 0xe2, 0x82, 'c', 0xf0, 0x9f };
  static const char *const pieces[]
      = { "", "", "", "\xf0\x9f\x9a\x80", "a", "\xef\xbf\xbd", "b", "", "", "\xef\xbf\xbd" "c", "", "" };
  g_autofree char *folder = temporary_folder ();
  g_autoptr (PlumbTokenizer) tokenizer = NULL;
  g_autoptr (PlumbDetokenizer) stream = NULL;
  g_autoptr (GString) text = g_string_new (NULL);

  g_assert_true (plumb_tokenizer_write_bytes (folder, 260, NULL));
  tokenizer = plumb_tokenizer_load (folder, NULL);
  remove_folder (folder);
  stream = plumb_detokenizer_new (tokenizer, FALSE);
  for (gsize i = 0; i < G_N_ELEMENTS (ids); i++)
    {
      g_string_truncate (text, 0);
      g_assert_true (plumb_detokenizer_push (stream, ids[i], text, NULL));
      g_assert_cmpstr (text->str, ==, pieces[i]);
    }
  g_string_truncate (text, 0);
  plumb_detokenizer_finish (stream, text);
  g_assert_cmpstr (text->str, ==, "\xef\xbf\xbd");
  g_assert_false (plumb_detokenizer_push (stream, 9999, text, NULL));
}

/* --- real files */

static void
check_row (PlumbTokenizer *tokenizer, const char *line)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GString) expected = g_string_new (NULL);
  JsonObject *row;
  JsonArray *ids;

  g_assert_true (json_parser_load_from_data (parser, line, -1, NULL));
  row = json_node_get_object (json_parser_get_root (parser));
  ids = json_object_get_array_member (row, "ids");
  for (guint i = 0; i < json_array_get_length (ids); i++)
    g_string_append_printf (expected, "%s%d", i > 0 ? " " : "", (int)json_array_get_int_element (ids, i));
  assert_ids (tokenizer, TRUE, json_object_get_string_member (row, "text"), expected->str);
}

static void
test_real_file (gconstpointer data)
{
  g_auto (GStrv) names = g_strsplit (data, " ", 2); /* file and vectors */
  g_autofree char *file = shared_file (names[0]), *vectors = file != NULL ? shared_file (names[1]) : NULL;
  g_autofree char *text = NULL;
  g_auto (GStrv) lines = NULL;
  g_autoptr (PlumbTokenizer) tokenizer = NULL;
  g_autoptr (GError) error = NULL;
  guint n = 0;

  if (vectors == NULL)
    return;
  tokenizer = plumb_tokenizer_load (file, &error);
  g_assert_no_error (error);
  g_assert_true (g_file_get_contents (vectors, &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (; lines[n] != NULL && *lines[n] != '\0'; n++)
    check_row (tokenizer, lines[n]);
  g_assert_cmpuint (n, ==, 120);
}

/* One file of texts for all vocabularies, and a line of ids for each text. */
static void
test_other_vectors (gconstpointer data)
{
  g_auto (GStrv) names = g_strsplit (data, " ", 2); /* tokenizer and name of its ids */
  g_autofree char *folder_name = g_strdup_printf ("tokenizers/%s", names[0]);
  g_autofree char *ids_name = g_strdup_printf ("tokenizers/llamacpp_vocab/ggml-vocab-%s.gguf.out", names[1]);
  g_autofree char *folder = shared_file (folder_name);
  g_autofree char *ids_path = folder != NULL ? shared_file (ids_name) : NULL;
  g_autofree char *texts_path = ids_path != NULL ? shared_file ("tokenizers/llamacpp_vocab/tests.inp") : NULL;
  g_autofree char *all_texts = NULL, *all_ids = NULL;
  g_auto (GStrv) texts = NULL, ids = NULL;
  g_autoptr (PlumbTokenizer) tokenizer = NULL;

  if (texts_path == NULL)
    return;
  tokenizer = plumb_tokenizer_load (folder, NULL);
  g_assert_true (g_file_get_contents (texts_path, &all_texts, NULL, NULL));
  g_assert_true (g_file_get_contents (ids_path, &all_ids, NULL, NULL));
  texts = g_strsplit (all_texts, "\n__ggml_vocab_test__\n", -1);
  ids = g_strsplit (all_ids, "\n", -1);
  g_assert_cmpuint (g_strv_length (texts), ==, 47);
  for (guint i = 0; texts[i] != NULL; i++)
    assert_ids (tokenizer, TRUE, texts[i], ids[i] != NULL ? g_strstrip (ids[i]) : "");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/tokenizer-files/sentencepiece/bpe", test_sentencepiece_bpe);
  g_test_add_func ("/tokenizer-files/sentencepiece/unused", test_sentencepiece_unused);
  g_test_add_func ("/tokenizer-files/sentencepiece/unigram", test_sentencepiece_unigram);
  g_test_add_func ("/tokenizer-files/sentencepiece/defined", test_sentencepiece_defined);
  g_test_add_func ("/tokenizer-files/sentencepiece/squeezed", test_sentencepiece_squeezed);
  g_test_add_func ("/tokenizer-files/sentencepiece/damaged", test_damaged_models);
  g_test_add_func ("/tokenizer-files/unigram", test_unigram_json);
  g_test_add_func ("/tokenizer-files/tiktoken", test_tiktoken);
  g_test_add_func ("/tokenizer-files/added", test_added_rules);
  g_test_add_func ("/tokenizer-files/eos", test_eos_ids);
  g_test_add_func ("/tokenizer-files/scanners", test_scanners);
  g_test_add_func ("/tokenizer-files/identity", test_identity);
  g_test_add_func ("/tokenizer-files/stream", test_stream_pieces);
  g_test_add_data_func ("/tokenizer-files/real/identity/gpt2", "gpt2", test_real_identity);
  g_test_add_data_func ("/tokenizer-files/real/identity/llama3", "llama3", test_real_identity);
  g_test_add_data_func ("/tokenizer-files/real/identity/cl100k", "cl100k", test_real_identity);
  g_test_add_data_func ("/tokenizer-files/real/llama2",
                        "tokenizers/llama2 tokenizers/vectors/llama2.jsonl", test_real_file);
  g_test_add_data_func ("/tokenizer-files/real/mistral",
                        "tokenizers/mistral/tokenizer.model.v1 tokenizers/vectors/mistral_v1.jsonl",
                        test_real_file);
  g_test_add_data_func ("/tokenizer-files/real/cl100k",
                        "tokenizers/cl100k tokenizers/vectors/cl100k.jsonl", test_real_file);
  g_test_add_data_func ("/tokenizer-files/real/llama3-ranks",
                        "tokenizers/llama3/tokenizer.model.gz tokenizers/vectors/llama3.jsonl",
                        test_real_file);
  g_test_add_data_func ("/tokenizer-files/real/gpt-neox", "gpt_neox mpt", test_other_vectors);
  g_test_add_data_func ("/tokenizer-files/real/phi-3", "llama2 phi-3", test_other_vectors);
  g_test_add_data_func ("/tokenizer-files/real/qwen2", "qwen3 qwen2", test_other_vectors);
  g_test_add_data_func ("/tokenizer-files/real/llama-bpe", "llama3 llama-bpe", test_other_vectors);
  return g_test_run ();
}
