/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of a template. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/template-private.h"

gboolean
plumb_parse_is (const PlumbParser *p, PlumbTokenKind kind, const char *text)
{
  return p->token->kind == kind
         && (text == NULL || (p->token->text != NULL && g_str_equal (p->token->text, text)));
}

gboolean
plumb_parse_take (PlumbParser *p, PlumbTokenKind kind, const char *text)
{
  if (!plumb_parse_is (p, kind, text))
    return FALSE;
  p->token++;
  return TRUE;
}

gpointer
plumb_parse_fail (PlumbParser *p, const char *format, ...)
{
  va_list arguments;

  if (p->error == NULL)
    {
      g_autofree char *what = NULL;

      va_start (arguments, format);
      what = g_strdup_vprintf (format, arguments);
      va_end (arguments);
      p->error = g_error_new (PLUMB_ERROR, PLUMB_ERROR_INVALID, "line %u: %s", p->token->line, what);
    }
  return NULL;
}

gboolean
plumb_parse_expect (PlumbParser *p, PlumbTokenKind kind, const char *text)
{
  if (plumb_parse_take (p, kind, text))
    return TRUE;
  if (text != NULL)
    plumb_parse_fail (p, "'%s' is expected%s%s", text, p->token->text != NULL ? ", not " : "",
                      p->token->text != NULL ? p->token->text : " here");
  else
    plumb_parse_fail (p, "the end of the tag is expected%s%s",
                      p->token->text != NULL ? ", not " : "",
                      p->token->text != NULL ? p->token->text : " here");
  return FALSE;
}

gboolean
plumb_parse_enter (PlumbParser *p)
{
  if (++p->depth <= PLUMB_TEMPLATE_DEPTH)
    return TRUE;
  plumb_parse_fail (p, "it nests too deeply");
  return FALSE;
}

static PlumbNode *parse_body (PlumbParser *p, const char *const *ends);

/* The rest of a block: its statements, and its end tag, which is taken. */
static gboolean
parse_to_end (PlumbParser *p, PlumbNode **body, const char *end)
{
  const char *const ends[] = { end, NULL };

  *body = parse_body (p, ends);
  if (p->error != NULL)
    return FALSE;
  p->token += 2; /* "{%" and the word */
  return plumb_parse_expect (p, TOKEN_BLOCK_END, NULL);
}

static PlumbNode *
parse_if (PlumbParser *p)
{
  static const char *const ends[] = { "elif", "else", "endif", NULL };
  PlumbNode *node = plumb_node_new (p, NODE_IF), *last = node;

  for (;;)
    {
      last->a = plumb_parse_tuple (p, FALSE);
      if (last->a == NULL || !plumb_parse_expect (p, TOKEN_BLOCK_END, NULL))
        return NULL;
      last->body = parse_body (p, ends);
      if (p->error != NULL)
        return NULL;
      p->token++;
      if (!plumb_parse_take (p, TOKEN_NAME, "elif"))
        break;
      last->other = plumb_node_new (p, NODE_IF);
      last = last->other;
    }
  if (plumb_parse_take (p, TOKEN_NAME, "endif"))
    return plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) ? node : NULL;
  p->token++; /* else */
  if (!plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) || !parse_to_end (p, &last->c, "endif"))
    return NULL;
  return node;
}

static PlumbNode *
parse_for (PlumbParser *p)
{
  static const char *const ends[] = { "else", "endfor", NULL };
  PlumbNode *node = plumb_node_new (p, NODE_FOR);

  node->a = plumb_parse_target (p);
  if (node->a == NULL || !plumb_parse_expect (p, TOKEN_NAME, "in"))
    return NULL;
  node->b = plumb_parse_tuple (p, FALSE);
  if (node->b == NULL)
    return NULL;
  if (plumb_parse_take (p, TOKEN_NAME, "if"))
    {
      node->c = plumb_parse_expression (p);
      if (node->c == NULL)
        return NULL;
    }
  node->flag = plumb_parse_take (p, TOKEN_NAME, "recursive");
  if (!plumb_parse_expect (p, TOKEN_BLOCK_END, NULL))
    return NULL;
  node->body = parse_body (p, ends);
  if (p->error != NULL)
    return NULL;
  p->token++;
  if (plumb_parse_take (p, TOKEN_NAME, "endfor"))
    return plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) ? node : NULL;
  p->token++;
  if (!plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) || !parse_to_end (p, &node->other, "endfor"))
    return NULL;
  return node;
}

/* {% set a = ... %}, {% set ns.a = ... %}, {% set a %} ... {% endset %} */
static PlumbNode *
parse_set (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_SET);

  node->a = plumb_parse_target (p);
  if (node->a == NULL)
    return NULL;
  if (node->a->kind == NODE_NAME && plumb_parse_take (p, TOKEN_OPERATOR, "."))
    {
      if (p->token->kind != TOKEN_NAME)
        return plumb_parse_fail (p, "a name is expected behind the dot");
      node->name = p->token++->text;
    }
  if (plumb_parse_take (p, TOKEN_OPERATOR, "="))
    {
      node->b = plumb_parse_tuple (p, TRUE);
      return node->b != NULL && plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) ? node : NULL;
    }
  node->kind = NODE_SET_BLOCK;
  if (plumb_parse_take (p, TOKEN_OPERATOR, "|"))
    {
      node->b = plumb_parse_filters (p, NULL);
      if (node->b == NULL)
        return NULL;
    }
  return plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) && parse_to_end (p, &node->body, "endset")
             ? node
             : NULL;
}

/* (a, b=1): names, each with the default in `a`. */
static gboolean
parse_parameters (PlumbParser *p, PlumbNode *node)
{
  PlumbNode **end = &node->children;

  while (!plumb_parse_take (p, TOKEN_OPERATOR, ")"))
    {
      PlumbNode *parameter = plumb_node_new (p, NODE_ARGUMENT);

      if (p->token->kind != TOKEN_NAME)
        return plumb_parse_fail (p, "the name of a parameter is expected here") != NULL;
      parameter->name = p->token++->text;
      if (plumb_parse_take (p, TOKEN_OPERATOR, "="))
        {
          parameter->a = plumb_parse_expression (p);
          if (parameter->a == NULL)
            return FALSE;
        }
      *end = parameter;
      end = &parameter->next;
      if (!plumb_parse_is (p, TOKEN_OPERATOR, ")") && !plumb_parse_expect (p, TOKEN_OPERATOR, ","))
        return FALSE;
    }
  return TRUE;
}

static PlumbNode *
parse_macro (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_MACRO);

  if (p->token->kind != TOKEN_NAME)
    return plumb_parse_fail (p, "the name of the macro is expected here");
  node->name = p->token++->text;
  return plumb_parse_expect (p, TOKEN_OPERATOR, "(") && parse_parameters (p, node)
                 && plumb_parse_expect (p, TOKEN_BLOCK_END, NULL)
                 && parse_to_end (p, &node->body, "endmacro")
             ? node
             : NULL;
}

static PlumbNode *
parse_call_block (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_CALL_BLOCK);

  node->name = "caller";
  if (plumb_parse_take (p, TOKEN_OPERATOR, "(") && !parse_parameters (p, node))
    return NULL;
  node->a = plumb_parse_expression (p);
  if (node->a == NULL)
    return NULL;
  if (node->a->kind != NODE_CALL)
    return plumb_parse_fail (p, "a call is expected here");
  return plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) && parse_to_end (p, &node->body, "endcall")
             ? node
             : NULL;
}

static PlumbNode *
parse_filter_block (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_FILTER_BLOCK);

  node->b = plumb_parse_filters (p, NULL);
  return node->b != NULL && plumb_parse_expect (p, TOKEN_BLOCK_END, NULL)
                 && parse_to_end (p, &node->body, "endfilter")
             ? node
             : NULL;
}

static PlumbNode *
parse_with (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_WITH), **end = &node->children;

  while (p->token->kind != TOKEN_BLOCK_END)
    {
      PlumbNode *set = plumb_node_new (p, NODE_SET);

      set->a = plumb_parse_target (p);
      if (set->a == NULL || !plumb_parse_expect (p, TOKEN_OPERATOR, "="))
        return NULL;
      set->b = plumb_parse_expression (p);
      if (set->b == NULL)
        return NULL;
      *end = set;
      end = &set->next;
      if (p->token->kind != TOKEN_BLOCK_END && !plumb_parse_expect (p, TOKEN_OPERATOR, ","))
        return NULL;
    }
  p->token++;
  return parse_to_end (p, &node->body, "endwith") ? node : NULL;
}

static PlumbNode *
parse_generation (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_GENERATION);

  p->has_generation = TRUE;
  return plumb_parse_expect (p, TOKEN_BLOCK_END, NULL)
                 && parse_to_end (p, &node->body, "endgeneration")
             ? node
             : NULL;
}

static PlumbNode *
parse_break (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_BREAK);

  return plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) ? node : NULL;
}

static PlumbNode *
parse_continue (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_CONTINUE);

  return plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) ? node : NULL;
}

static PlumbNode *
parse_do (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_DO);

  node->a = plumb_parse_tuple (p, TRUE);
  return node->a != NULL && plumb_parse_expect (p, TOKEN_BLOCK_END, NULL) ? node : NULL;
}

static const struct
{
  const char *word;
  PlumbNode *(*parse) (PlumbParser *p);
} statements[] = {
  { "if", parse_if },
  { "for", parse_for },
  { "set", parse_set },
  { "macro", parse_macro },
  { "call", parse_call_block },
  { "filter", parse_filter_block },
  { "with", parse_with },
  { "generation", parse_generation },
  { "break", parse_break },
  { "continue", parse_continue },
  { "do", parse_do },
};

static PlumbNode *
parse_block (PlumbParser *p)
{
  const char *word = p->token->text;
  PlumbNode *node = NULL;

  if (p->token->kind != TOKEN_NAME)
    return plumb_parse_fail (p, "the name of a block is expected here");
  if (!plumb_parse_enter (p))
    return NULL;
  for (gsize i = 0; i < G_N_ELEMENTS (statements); i++)
    if (g_str_equal (statements[i].word, word))
      {
        p->token++;
        node = statements[i].parse (p);
        p->depth--;
        return node;
      }
  return plumb_parse_fail (p, "Encountered unknown tag '%s'.", word);
}

static PlumbNode *
parse_output (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_OUTPUT);

  node->a = plumb_parse_tuple (p, TRUE);
  return node->a != NULL && plumb_parse_expect (p, TOKEN_OUTPUT_END, NULL) ? node : NULL;
}

static PlumbNode *
parse_data (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_DATA);

  node->value = PLUMB_TEXT (p->token->text, p->token->length);
  p->token++;
  return node;
}

static gboolean
is_end (const PlumbParser *p, const char *const *ends)
{
  for (gsize i = 0; ends != NULL && ends[i] != NULL; i++)
    if (p->token->kind == TOKEN_BLOCK_BEGIN && p->token[1].kind == TOKEN_NAME
        && g_str_equal (p->token[1].text, ends[i]))
      return TRUE;
  return FALSE;
}

/* Statements up to a tag that begins with one of `ends`, which is left. */
static PlumbNode *
parse_body (PlumbParser *p, const char *const *ends)
{
  PlumbNode *first = NULL, **end = &first, *node;

  while (!is_end (p, ends))
    {
      if (p->token->kind == TOKEN_END && ends == NULL)
        break;
      if (p->token->kind == TOKEN_DATA)
        node = parse_data (p);
      else if (plumb_parse_take (p, TOKEN_OUTPUT_BEGIN, NULL))
        node = parse_output (p);
      else if (plumb_parse_take (p, TOKEN_BLOCK_BEGIN, NULL))
        node = parse_block (p);
      else
        node = plumb_parse_fail (p, "'%s' is missing", ends != NULL ? ends[0] : "a tag");
      if (node == NULL)
        return NULL;
      *end = node;
      end = &node->next;
    }
  return first;
}

PlumbNode *
plumb_template_parse (PlumbParser *p, GError **error)
{
  PlumbNode *node = parse_body (p, NULL);

  if (p->error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&p->error));
      return NULL;
    }
  if (node == NULL)
    {
      node = plumb_node_new (p, NODE_DATA);
      node->value = PLUMB_TEXT ("", 0);
    }
  return node;
}
