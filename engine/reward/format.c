/* SPDX-License-Identifier: Apache-2.0 */
/* Is the response a row of tagged parts and nothing else, like <think>...</think>
 * <answer>...</answer>? */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/reward/functions.h"

typedef struct
{
  char **tags;
  gboolean prefilled; /* the prompt has opened the first tag */
} Format;

static gboolean
is_tag (const char *name)
{
  return *name != '\0'
         && strspn (name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-|:")
                == strlen (name);
}

static gboolean
open_format (PlumbSpec *spec, gpointer *state, GError **error)
{
  const char *tags = plumb_spec_get_reward_option (spec, "format", "tags");
  Format *format = g_new0 (Format, 1);

  *state = format;
  format->tags = g_strsplit (tags != NULL ? tags : "think, answer", ",", -1);
  for (gsize i = 0; format->tags[i] != NULL; i++)
    if (!is_tag (g_strstrip (format->tags[i])))
      return plumb_reward_bad_option (spec, "format", "tags", "write names with commas, like think, answer",
                                      error);
  return plumb_reward_boolean_option (spec, "format", "prefilled", FALSE, &format->prefilled, error);
}

static void
close_format (gpointer state)
{
  Format *format = state;

  g_strfreev (format->tags);
  g_free (format);
}

static const char *
skip_blanks (const char *c)
{
  while (g_ascii_isspace (*c))
    c++;
  return c;
}

/* What stands behind one part; NULL with `why` when it is not there as it should be. */
static const char *
read_part (const char *c, const char *tag, gboolean opened, char **why)
{
  g_autofree char *open = g_strdup_printf ("<%s>", tag), *close = g_strdup_printf ("</%s>", tag);
  const char *end, *again;

  c = skip_blanks (c);
  if (!opened && !g_str_has_prefix (c, open))
    {
      *why = g_strdup_printf ("format: %s is not where it belongs", open);
      return NULL;
    }
  c += opened ? 0 : strlen (open);
  end = strstr (c, close);
  again = strstr (c, open);
  if (end == NULL)
    *why = g_strdup_printf ("format: %s is never closed", open);
  else if (again != NULL)
    *why = g_strdup_printf ("format: %s stands more than once", open);
  else if (skip_blanks (c) == end)
    *why = g_strdup_printf ("format: nothing stands between %s and %s", open, close);
  return *why == NULL ? end + strlen (close) : NULL;
}

static void
score_format (gpointer state, const PlumbRewardInput *input, PlumbRewardScore *score)
{
  const Format *format = state;
  const char *c = input->response;

  for (gsize i = 0; format->tags[i] != NULL && c != NULL; i++)
    c = read_part (c, format->tags[i], i == 0 && format->prefilled, &score->reason);
  if (c != NULL && *skip_blanks (c) != '\0')
    score->reason = g_strdup ("format: there is text behind the last part");
  score->value = score->reason == NULL;
}

static const char *const format_options[] = { "tags", "prefilled", NULL };

const PlumbRewardFunction plumb_reward_format = {
  .name = "format",
  .options = format_options,
  .open = open_format,
  .score = score_format,
  .close = close_format,
};
