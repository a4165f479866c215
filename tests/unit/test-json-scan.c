/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "engine/core/json-scan.h"

static gboolean
check (const char *text, gsize length, const char **message, gsize *at)
{
  PlumbJsonScan scan;
  gboolean fine;

  plumb_json_scan_init (&scan, text, length);
  plumb_json_skip (&scan);
  fine = plumb_json_finish (&scan);
  if (message != NULL)
    *message = scan.message;
  if (at != NULL)
    *at = scan.at;
  return fine;
}

static void
test_valid (void)
{
  static const char *const texts[] = {
    "{}",
    "[]",
    " [ 1 , -0.5e+3 , true , false , null , \"\" ] ",
    "{\"a\":{\"b\":[{},[]]},\"c\":1}",
    "\"\\ud83d\\ude00\"",
    "0",
    "-0",
    "1e5",
    "\"\xe2\x80\xa8\"",
  };

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    if (!check (texts[i], strlen (texts[i]), NULL, NULL))
      g_error ("refused: %s", texts[i]);
}

static void
test_invalid (void)
{
  const struct
  {
    const char *text;
    gsize at;
  } cases[] = {
    { "", 0 },
    { "{", 1 },
    { "[1,]", 3 },
    { "[1 2]", 3 },
    { "{\"a\":1,}", 7 },
    { "{a:1}", 1 },
    { "{\"a\" 1}", 5 },
    { "01", 0 },
    { "1.", 2 },
    { "-", 1 },
    { "1e", 2 },
    { "nul", 0 },
    { "tru", 0 },
    { "\"a", 2 },
    { "\"\\x\"", 2 },
    { "\"\\u12g4\"", 5 },
    { "\"\t\"", 1 },
    { "\"\xff\"", 1 },
    { "\"a\\ud800b\"", 2 },
    { "\"\\udc00\"", 1 },
    { "\"\\ud800\\u0041\"", 1 },
    { "{} x", 3 },
    { "\"\xc0\x80\"", 1 },
    { "[}", 1 },
    { "NaN", 0 },
    { "+1", 0 },
    { ".5", 0 },
    { "'a'", 0 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const char *message;
      gsize at;

      if (check (cases[i].text, strlen (cases[i].text), &message, &at))
        g_error ("accepted: %s", cases[i].text);
      g_assert_nonnull (message);
      if (at != cases[i].at)
        g_error ("%s: at %" G_GSIZE_FORMAT ", not %" G_GSIZE_FORMAT ": %s", cases[i].text, at,
                 cases[i].at, message);
    }
}

static void
test_deep (void)
{
  g_autofree char *deep = g_strnfill (100000, '[');
  const char *message;

  g_assert_false (check (deep, 100000, &message, NULL));
  g_assert_nonnull (strstr (message, "deeply"));
}

static void
test_values (void)
{
  static const char text[] = "{\"s\":\"a\\u0000b\", \"n\": 12345678901234567890, \"i\":-7, "
                             "\"x\":[1,{\"y\":2}], \"t\":true}";
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) string = g_string_new (NULL);
  PlumbJsonScan scan;
  const char *number;
  gsize length;
  gint64 integer;
  gboolean yes;

  plumb_json_scan_init (&scan, text, strlen (text));
  g_assert_true (plumb_json_enter_object (&scan));
  g_assert_true (plumb_json_next_member (&scan, key));
  g_assert_true (plumb_json_get_string (&scan, string));
  g_assert_cmpmem (string->str, string->len, "a\0b", 3);
  g_assert_true (plumb_json_next_member (&scan, key));
  g_assert_true (plumb_json_get_number (&scan, &number, &length));
  g_assert_cmpmem (number, length, "12345678901234567890", 20);
  g_assert_true (plumb_json_next_member (&scan, key));
  g_assert_true (plumb_json_get_integer (&scan, &integer));
  g_assert_cmpint (integer, ==, -7);
  g_assert_true (plumb_json_next_member (&scan, key));
  g_assert_true (plumb_json_skip (&scan));
  g_assert_true (plumb_json_next_member (&scan, key));
  g_assert_cmpstr (key->str, ==, "t");
  g_assert_true (plumb_json_get_boolean (&scan, &yes));
  g_assert_true (yes);
  g_assert_false (plumb_json_next_member (&scan, key));
  g_assert_true (plumb_json_finish (&scan));
}

/* Every way to cut a valid text must be refused, and none may read beyond its end. */
static void
test_cut (void)
{
  static const char text[] = "{\"a\":[1.5e3,\"\\ud83d\\ude00\\n\",null],\"b\":{\"c\":false}}";

  for (gsize length = 0; length < strlen (text); length++)
    {
      g_autofree char *copy = g_malloc (length + 1);

      memcpy (copy, text, length);
      copy[length] = '}';
      g_assert_false (check (copy, length, NULL, NULL));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/json-scan/valid", test_valid);
  g_test_add_func ("/json-scan/invalid", test_invalid);
  g_test_add_func ("/json-scan/deep", test_deep);
  g_test_add_func ("/json-scan/values", test_values);
  g_test_add_func ("/json-scan/cut", test_cut);
  return g_test_run ();
}
