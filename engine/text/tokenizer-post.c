/* SPDX-License-Identifier: Apache-2.0 */
/* Post-processors: the ids that stand around a text. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include "engine/core/error.h"
#include "engine/text/tokenizer-private.h"

#define MOST_TEMPLATE_IDS 256

/* --- the template: what stands before and after a text */

typedef struct
{
  GPtrArray *names; /* of special tokens in order; NULL stands for the text */
  GHashTable *ids;  /* name -> GArray of gint32 */
} Template;

static gboolean
read_template_ids (Template *template, PlumbJsonScan *scan)
{
  g_autoptr (GString) name = g_string_new (NULL);
  g_autoptr (GString) key = g_string_new (NULL);

  if (!plumb_json_enter_object (scan))
    return FALSE;
  while (plumb_json_next_member (scan, name))
    {
      GArray *ids = g_array_new (FALSE, FALSE, sizeof (gint32));

      g_hash_table_replace (template->ids, g_strdup (name->str), ids);
      if (!plumb_json_enter_object (scan))
        return FALSE;
      while (plumb_json_next_member (scan, key))
        if (!g_str_equal (key->str, "ids"))
          plumb_json_skip (scan);
        else if (plumb_json_enter_array (scan))
          while (plumb_json_next_element (scan))
            {
              gint64 value = 0;
              gint32 id;

              plumb_json_get_integer (scan, &value);
              id = CLAMP (value, -1, G_MAXINT32);
              g_array_append_val (ids, id);
            }
    }
  return scan->message == NULL;
}

/* [{"SpecialToken": {"id": ...}}, {"Sequence": {...}}] */
static gboolean
read_template_single (Template *template, PlumbJsonScan *scan)
{
  g_autoptr (GString) kind = g_string_new (NULL);
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) id = g_string_new (NULL);

  if (!plumb_json_enter_array (scan))
    return FALSE;
  while (plumb_json_next_element (scan))
    {
      if (!plumb_json_enter_object (scan))
        return FALSE;
      while (plumb_json_next_member (scan, kind))
        {
          if (!plumb_json_enter_object (scan))
            return FALSE;
          while (plumb_json_next_member (scan, key))
            if (g_str_equal (key->str, "id"))
              plumb_json_get_string (scan, id);
            else
              plumb_json_skip (scan);
          g_ptr_array_add (template->names,
                           g_str_equal (kind->str, "Sequence") ? NULL : g_strdup (id->str));
        }
    }
  return scan->message == NULL;
}

/* BERT and RoBERTa: ["<s>", 0] in front and behind. */
static gboolean
read_pair (GArray *ids, PlumbJsonScan *scan)
{
  gint64 value = -1;
  gint32 id;

  if (!plumb_json_enter_array (scan) || !plumb_json_next_element (scan) || !plumb_json_skip (scan)
      || !plumb_json_next_element (scan) || !plumb_json_get_integer (scan, &value))
    return FALSE;
  while (plumb_json_next_element (scan))
    plumb_json_skip (scan);
  id = CLAMP (value, -1, G_MAXINT32);
  if (ids->len < MOST_TEMPLATE_IDS)
    g_array_append_val (ids, id);
  return scan->message == NULL;
}

static gboolean
apply_template (PlumbTokenizer *tokenizer, const Template *template, GError **error)
{
  GArray *side = tokenizer->prefix;

  for (guint i = 0; i < template->names->len; i++)
    {
      const char *name = g_ptr_array_index (template->names, i);
      GArray *ids = name != NULL ? g_hash_table_lookup (template->ids, name) : NULL;

      if (name == NULL)
        side = tokenizer->suffix;
      else if (ids == NULL || side->len + ids->len > MOST_TEMPLATE_IDS)
        return plumb_tokenizer_unsupported (error, "template token without ids", name);
      else
        g_array_append_vals (side, ids->data, ids->len);
    }
  return TRUE;
}

gboolean
plumb_post_processor_read (PlumbTokenizer *tokenizer, PlumbJsonScan *scan, GError **error)
{
  g_autoptr (GString) key = g_string_new (NULL);
  g_autoptr (GString) type = g_string_new (NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GHashTable) ids
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_array_unref);
  Template template = { names, ids };

  if (plumb_json_peek (scan) == PLUMB_JSON_NULL)
    return plumb_json_skip (scan);
  if (!plumb_json_enter_object (scan))
    return plumb_tokenizer_malformed (error, scan);
  while (plumb_json_next_member (scan, key))
    if (g_str_equal (key->str, "type"))
      plumb_json_get_string (scan, type);
    else if (g_str_equal (key->str, "cls") && plumb_json_peek (scan) == PLUMB_JSON_ARRAY)
      read_pair (tokenizer->prefix, scan);
    else if (g_str_equal (key->str, "sep") && plumb_json_peek (scan) == PLUMB_JSON_ARRAY)
      read_pair (tokenizer->suffix, scan);
    else if (g_str_equal (key->str, "single"))
      read_template_single (&template, scan);
    else if (g_str_equal (key->str, "special_tokens")
             && plumb_json_peek (scan) == PLUMB_JSON_OBJECT)
      read_template_ids (&template, scan);
    else if (g_str_equal (key->str, "processors"))
      {
        if (!plumb_json_enter_array (scan))
          break;
        while (plumb_json_next_element (scan))
          if (!plumb_post_processor_read (tokenizer, scan, error))
            return FALSE;
      }
    else
      plumb_json_skip (scan);
  if (scan->message != NULL)
    return plumb_tokenizer_malformed (error, scan);
  if (g_str_equal (type->str, "TemplateProcessing"))
    return apply_template (tokenizer, &template, error);
  if (g_str_equal (type->str, "ByteLevel") || g_str_equal (type->str, "Sequence")
      || g_str_equal (type->str, "RobertaProcessing") || g_str_equal (type->str, "BertProcessing"))
    return TRUE; /* ByteLevel only moves offsets, which nobody asks for here */
  return plumb_tokenizer_unsupported (error, "post-processor", type->str);
}
