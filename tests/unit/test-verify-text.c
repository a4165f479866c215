/* SPDX-License-Identifier: Apache-2.0 */
/* verify tokenizer and verify templates: right files pass, spoiled copies fail, damaged ones are refused. */
#include "config.h"

#include "engine/core/error.h"
#include "engine/run/verify.h"
#include "engine/text/tokenizer.h"
#include "tests/unit/temporary.h"

static void
write_file (const char *folder, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

static void
quiet (const char *text)
{
}

typedef struct
{
  const char *rows;
  int outcome; /* 1 passes, 0 differs, -1 cannot be read */
} Case;

static const Case tokenizer_cases[] = {
  { "{\"text\":\"ab\",\"ids\":[97,98]}\n\n{\"text\":\"<eos>\",\"ids\":[60,101,111,115,62],\"ids_added\":[257]}\n", 1 },
  { "[{\"text\":\"\xc3\xa9\",\"ids\":[256,195,169]}]", 1 }, /* behind a BOS */
  { "{\"text\":\"ab\",\"ids\":[97,99]}", 0 },
  { "{\"text\":\"ab\",\"ids\":[97]}", 0 },
  { "{\"text\":\"ab\",\"ids\":[97,98,99]}", 0 },
  { "{\"text\":\"<eos>\",\"ids\":[60,101,111,115,62],\"ids_added\":[258]}", 0 },
  { "{\"text\":\"a\",\"ids\":[97],\"decoded\":\"b\"}", 0 },
  { "", 0 }, /* nothing compared is no success */
  { "{\"text\":\"a\"}", -1 },
  { "{\"text\":\"a\",\"ids\":[97]", -1 },
};

static void
test_tokenizer (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autofree char *rows = g_build_filename (folder, "rows.jsonl", NULL);

  g_assert_true (plumb_tokenizer_write_bytes (folder, 260, NULL));
  for (gsize i = 0; i < G_N_ELEMENTS (tokenizer_cases); i++)
    {
      gboolean passed = FALSE, fine;
      g_autoptr (GError) error = NULL;

      write_file (folder, "rows.jsonl", tokenizer_cases[i].rows);
      GPrintFunc print = g_set_print_handler (quiet);
      fine = plumb_verify_tokenizer (folder, rows, TRUE, &passed, &error);
      g_set_print_handler (print);
      if ((fine ? passed : -1) != tokenizer_cases[i].outcome)
        g_error ("case %" G_GSIZE_FORMAT ": %d, %d", i, fine, passed);
      g_assert_true (fine || g_error_matches (error, PLUMB_ERROR, PLUMB_ERROR_INVALID));
    }
  remove_folder (folder);
}

#define ROW(prompt, result)                                                                        \
  "[{\"template\":\"t.jinja\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"               \
  "\"add_generation_prompt\":" prompt ",\"variables\":{\"v\":\"x\"}," result "}]"

static const Case template_cases[] = {
  { ROW ("false", "\"text\":\"xHi\""), 1 },
  { ROW ("true", "\"error\":\"no prompts\""), 1 },
  { ROW ("false", "\"text\":\"xHo\""), 0 },
  { ROW ("false", "\"text\":\"xHi \""), 0 },
  { ROW ("true", "\"text\":\"xHi\""), 0 },
  { ROW ("false", "\"error\":\"no prompts\""), 0 },
  { ROW ("true", "\"error\":\"other\""), 0 },
  { "[]", 0 },
  { "[{\"template\":\"t.jinja\"}]", -1 },
  { "{", -1 },
};

static void
test_templates (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autofree char *rows = g_build_filename (folder, "rows.json", NULL);

  write_file (folder, "t.jinja",
              "{% if add_generation_prompt %}{{ raise_exception('no prompts') }}{% endif %}"
              "{{ v }}{{ messages[0].content }}");
  for (gsize i = 0; i < G_N_ELEMENTS (template_cases); i++)
    {
      gboolean passed = FALSE, fine;
      g_autoptr (GError) error = NULL;

      write_file (folder, "rows.json", template_cases[i].rows);
      GPrintFunc print = g_set_print_handler (quiet);
      fine = plumb_verify_templates (folder, rows, TRUE, &passed, &error);
      g_set_print_handler (print);
      if ((fine ? passed : -1) != template_cases[i].outcome)
        g_error ("case %" G_GSIZE_FORMAT ": %d, %d", i, fine, passed);
    }
  remove_folder (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/verify-text/tokenizer", test_tokenizer);
  g_test_add_func ("/verify-text/templates", test_templates);
  return g_test_run ();
}
