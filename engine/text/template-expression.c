/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of a template, by descent: each function takes what binds tighter from the next. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/template-private.h"

PlumbNode *
plumb_node_new (PlumbParser *p, PlumbNodeKind kind)
{
  PlumbNode *node = plumb_arena_alloc (p->arena, sizeof (PlumbNode));

  node->kind = kind;
  node->line = p->token->line;
  return node;
}

static PlumbNode *
binary (PlumbParser *p, PlumbNodeKind kind, PlumbOperator op, PlumbNode *a, PlumbNode *b)
{
  PlumbNode *node = plumb_node_new (p, kind);

  node->op = op;
  node->a = a;
  node->b = b;
  return a != NULL && b != NULL ? node : NULL;
}

static PlumbNode *
constant (PlumbParser *p, PlumbValue value)
{
  PlumbNode *node = plumb_node_new (p, NODE_CONST);

  node->value = value;
  return node;
}

/* Adds to the end of a list of nodes; FALSE for NULL. */
static gboolean
append (PlumbNode ***end, PlumbNode *node)
{
  if (node == NULL)
    return FALSE;
  **end = node;
  *end = &node->next;
  return TRUE;
}

static PlumbNode *
parse_list (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_LIST), **end = &node->children;

  while (!plumb_parse_take (p, TOKEN_OPERATOR, "]"))
    if (!append (&end, plumb_parse_expression (p))
        || (!plumb_parse_is (p, TOKEN_OPERATOR, "]") && !plumb_parse_expect (p, TOKEN_OPERATOR, ",")))
      return NULL;
  return node;
}

static PlumbNode *
parse_dict (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_DICT), **end = &node->children;

  while (!plumb_parse_take (p, TOKEN_OPERATOR, "}"))
    if (!append (&end, plumb_parse_expression (p)) || !plumb_parse_expect (p, TOKEN_OPERATOR, ":")
        || !append (&end, plumb_parse_expression (p))
        || (!plumb_parse_is (p, TOKEN_OPERATOR, "}") && !plumb_parse_expect (p, TOKEN_OPERATOR, ",")))
      return NULL;
  return node;
}

static PlumbNode *
parse_parentheses (PlumbParser *p)
{
  PlumbNode *node;

  if (plumb_parse_take (p, TOKEN_OPERATOR, ")"))
    return plumb_node_new (p, NODE_TUPLE);
  node = plumb_parse_tuple (p, TRUE);
  return node != NULL && plumb_parse_expect (p, TOKEN_OPERATOR, ")") ? node : NULL;
}

static PlumbNode *
parse_name (PlumbParser *p)
{
  static const struct
  {
    const char *name;
    PlumbValue value;
  } constants[] = {
    { "true", { .kind = VALUE_BOOL, .b = TRUE } },  { "True", { .kind = VALUE_BOOL, .b = TRUE } },
    { "false", { .kind = VALUE_BOOL } },            { "False", { .kind = VALUE_BOOL } },
    { "none", { .kind = VALUE_NONE } },             { "None", { .kind = VALUE_NONE } },
  };
  const char *name = p->token->text;
  PlumbNode *node;

  for (gsize i = 0; i < G_N_ELEMENTS (constants); i++)
    if (g_str_equal (constants[i].name, name))
      {
        node = constant (p, constants[i].value);
        p->token++;
        return node;
      }
  node = plumb_node_new (p, NODE_NAME);
  node->name = name;
  p->token++;
  return node;
}

/* Strings that follow each other are one. */
static PlumbNode *
parse_string (PlumbParser *p)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (; p->token->kind == TOKEN_STRING; p->token++)
    g_string_append_len (text, p->token->text, p->token->length);
  return constant (p, PLUMB_TEXT (plumb_arena_copy (p->arena, text->str, text->len), text->len));
}

static PlumbNode *
parse_primary (PlumbParser *p)
{
  const PlumbToken *token = p->token;

  switch (token->kind)
    {
    case TOKEN_NAME:
      return parse_name (p);
    case TOKEN_STRING:
      return parse_string (p);
    case TOKEN_INT:
      p->token++;
      return constant (p, PLUMB_INT (token->integer));
    case TOKEN_FLOAT:
      p->token++;
      return constant (p, PLUMB_FLOAT (token->number));
    case TOKEN_OPERATOR:
      if (plumb_parse_take (p, TOKEN_OPERATOR, "("))
        return parse_parentheses (p);
      if (plumb_parse_take (p, TOKEN_OPERATOR, "["))
        return parse_list (p);
      if (plumb_parse_take (p, TOKEN_OPERATOR, "{"))
        return parse_dict (p);
      break;
    case TOKEN_DATA:
    case TOKEN_OUTPUT_BEGIN:
    case TOKEN_OUTPUT_END:
    case TOKEN_BLOCK_BEGIN:
    case TOKEN_BLOCK_END:
    case TOKEN_END:
      break;
    }
  if (token->text != NULL)
    return plumb_parse_fail (p, "unexpected '%s'", token->text);
  return plumb_parse_fail (p, "an expression is expected here");
}

/* [a], [a:b:c]: the part between the brackets. */
static PlumbNode *
parse_subscript (PlumbParser *p)
{
  PlumbNode *slice = plumb_node_new (p, NODE_SLICE), *first = NULL;

  if (!plumb_parse_is (p, TOKEN_OPERATOR, ":"))
    {
      first = plumb_parse_expression (p);
      if (first == NULL || !plumb_parse_is (p, TOKEN_OPERATOR, ":"))
        return first;
    }
  slice->a = first;
  plumb_parse_take (p, TOKEN_OPERATOR, ":");
  if (!plumb_parse_is (p, TOKEN_OPERATOR, ":") && !plumb_parse_is (p, TOKEN_OPERATOR, "]"))
    {
      slice->b = plumb_parse_expression (p);
      if (slice->b == NULL)
        return NULL;
    }
  if (plumb_parse_take (p, TOKEN_OPERATOR, ":") && !plumb_parse_is (p, TOKEN_OPERATOR, "]"))
    {
      slice->c = plumb_parse_expression (p);
      if (slice->c == NULL)
        return NULL;
    }
  return slice;
}

static PlumbNode *
parse_dot (PlumbParser *p, PlumbNode *object)
{
  PlumbNode *node = plumb_node_new (p, NODE_ATTRIBUTE);

  node->a = object;
  if (p->token->kind == TOKEN_NAME)
    {
      node->name = p->token++->text;
      return node;
    }
  if (p->token->kind != TOKEN_INT)
    return plumb_parse_fail (p, "a name is expected behind the dot");
  node = binary (p, NODE_ITEM, OP_ADD, object, constant (p, PLUMB_INT (p->token->integer)));
  p->token++;
  return node;
}

static PlumbNode *
parse_argument (PlumbParser *p)
{
  PlumbNode *node = plumb_node_new (p, NODE_ARGUMENT);

  if (plumb_parse_take (p, TOKEN_OPERATOR, "*"))
    node->op = OP_STAR;
  else if (plumb_parse_take (p, TOKEN_OPERATOR, "**"))
    node->op = OP_STARS;
  else if (p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_OPERATOR
           && g_str_equal (p->token[1].text, "="))
    {
      node->name = p->token->text;
      p->token += 2;
    }
  node->a = plumb_parse_expression (p);
  return node->a != NULL ? node : NULL;
}

/* The arguments behind an opening parenthesis. */
static gboolean
parse_arguments (PlumbParser *p, PlumbNode *node)
{
  PlumbNode **end = &node->children;

  while (!plumb_parse_take (p, TOKEN_OPERATOR, ")"))
    if (!append (&end, parse_argument (p))
        || (!plumb_parse_is (p, TOKEN_OPERATOR, ")") && !plumb_parse_expect (p, TOKEN_OPERATOR, ",")))
      return FALSE;
  return TRUE;
}

PlumbNode *
plumb_parse_call (PlumbParser *p, PlumbNode *callee)
{
  PlumbNode *node = plumb_node_new (p, NODE_CALL);

  node->a = callee;
  return parse_arguments (p, node) ? node : NULL;
}

PlumbNode *
plumb_parse_postfix (PlumbParser *p, PlumbNode *node)
{
  for (guint n = 0; node != NULL; n++)
    {
      if (n > PLUMB_TEMPLATE_DEPTH)
        return plumb_parse_fail (p, "an expression nests too deeply");
      if (plumb_parse_take (p, TOKEN_OPERATOR, "."))
        node = parse_dot (p, node);
      else if (plumb_parse_take (p, TOKEN_OPERATOR, "["))
        {
          node = binary (p, NODE_ITEM, OP_ADD, node, parse_subscript (p));
          if (node != NULL && !plumb_parse_expect (p, TOKEN_OPERATOR, "]"))
            return NULL;
        }
      else if (plumb_parse_take (p, TOKEN_OPERATOR, "("))
        node = plumb_parse_call (p, node);
      else
        break;
    }
  return node;
}

static PlumbNode *
parse_filter (PlumbParser *p, PlumbNode *value)
{
  PlumbNode *node = plumb_node_new (p, NODE_FILTER);

  if (p->token->kind != TOKEN_NAME)
    return plumb_parse_fail (p, "the name of a filter is expected here");
  node->name = p->token++->text;
  node->a = value;
  if (plumb_filter_find (node->name) == NULL && plumb_list_filter_find (node->name) == NULL)
    return plumb_parse_fail (p, "No filter named '%s'.", node->name);
  if (plumb_parse_take (p, TOKEN_OPERATOR, "(") && !parse_arguments (p, node))
    return NULL;
  return node;
}

/* A test may have one argument without parentheses: "is divisibleby 3". */
static gboolean
starts_argument (const PlumbParser *p)
{
  static const char *const words[] = { "else", "or", "and", "is", "if", "in", "not" };
  static const char *const brackets[] = { "(", "[", "{" };

  if (p->token->kind == TOKEN_STRING || p->token->kind == TOKEN_INT || p->token->kind == TOKEN_FLOAT)
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    if (plumb_parse_is (p, TOKEN_NAME, words[i]))
      return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (brackets); i++)
    if (plumb_parse_is (p, TOKEN_OPERATOR, brackets[i]))
      return TRUE;
  return p->token->kind == TOKEN_NAME;
}

static PlumbNode *
parse_test (PlumbParser *p, PlumbNode *value)
{
  PlumbNode *node = plumb_node_new (p, NODE_TEST), *argument;

  node->a = value;
  node->flag = plumb_parse_take (p, TOKEN_NAME, "not");
  if (p->token->kind == TOKEN_OPERATOR)
    node->name = p->token->text;
  else if (p->token->kind != TOKEN_NAME)
    return plumb_parse_fail (p, "the name of a test is expected here");
  node->name = p->token++->text;
  if (plumb_parse_take (p, TOKEN_OPERATOR, "("))
    return parse_arguments (p, node) ? node : NULL;
  if (!starts_argument (p))
    return node;
  argument = plumb_node_new (p, NODE_ARGUMENT);
  argument->a = plumb_parse_postfix (p, parse_primary (p));
  node->children = argument;
  return argument->a != NULL ? node : NULL;
}

PlumbNode *
plumb_parse_filters (PlumbParser *p, PlumbNode *node)
{
  gboolean first = node == NULL;

  for (guint n = 0; first || node != NULL; n++)
    {
      if (n > PLUMB_TEMPLATE_DEPTH)
        return plumb_parse_fail (p, "an expression nests too deeply");
      if (first || plumb_parse_take (p, TOKEN_OPERATOR, "|"))
        node = parse_filter (p, node);
      else if (plumb_parse_take (p, TOKEN_NAME, "is"))
        node = parse_test (p, node);
      else if (plumb_parse_take (p, TOKEN_OPERATOR, "("))
        node = plumb_parse_call (p, node);
      else
        break;
      first = FALSE;
    }
  return node;
}

static PlumbNode *
parse_unary (PlumbParser *p, gboolean with_filters)
{
  gboolean minus = plumb_parse_is (p, TOKEN_OPERATOR, "-");
  PlumbNode *node;

  if (!plumb_parse_enter (p))
    return NULL;
  if (minus || plumb_parse_is (p, TOKEN_OPERATOR, "+"))
    {
      p->token++;
      node = binary (p, minus ? NODE_NEGATE : NODE_PLUS, OP_ADD, parse_unary (p, FALSE),
                     plumb_node_new (p, NODE_CONST));
    }
  else
    node = parse_primary (p);
  node = node != NULL ? plumb_parse_postfix (p, node) : NULL;
  if (node != NULL && with_filters)
    node = plumb_parse_filters (p, node);
  p->depth--;
  return node;
}

/* A level of operators of equal rank, which bind to the left. */
typedef struct
{
  const char *text;
  PlumbOperator op;
  guint level;
} Operator;

#define LEVELS 4

static PlumbNode *
parse_level (PlumbParser *p, guint level)
{
  static const Operator operators[] = {
    { "+", OP_ADD, 0 },      { "-", OP_SUBTRACT, 0 },      { "~", OP_CONCAT, 1 }, { "*", OP_MULTIPLY, 2 },
    { "/", OP_DIVIDE, 2 },   { "//", OP_FLOOR_DIVIDE, 2 }, { "%", OP_MODULO, 2 }, { "**", OP_POWER, 3 },
  };
  PlumbNode *node = level == LEVELS ? parse_unary (p, TRUE) : parse_level (p, level + 1);

  for (guint n = 0; level < LEVELS && node != NULL; n++)
    {
      const Operator *found = NULL;

      for (gsize i = 0; i < G_N_ELEMENTS (operators); i++)
        if (operators[i].level == level && plumb_parse_is (p, TOKEN_OPERATOR, operators[i].text))
          found = &operators[i];
      if (found == NULL)
        return node;
      if (n > PLUMB_TEMPLATE_DEPTH)
        return plumb_parse_fail (p, "an expression nests too deeply");
      p->token++;
      node = binary (p, NODE_BINARY, found->op, node, parse_level (p, level + 1));
    }
  return node;
}

/* The operator of a comparison is taken, or FALSE. */
static gboolean
take_comparison (PlumbParser *p, PlumbOperator *op)
{
  static const Operator operators[] = {
    { "==", OP_EQUAL },      { "!=", OP_NOT_EQUAL }, { "<", OP_LESS },
    { "<=", OP_LESS_EQUAL }, { ">", OP_GREATER },    { ">=", OP_GREATER_EQUAL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (operators); i++)
    if (plumb_parse_take (p, TOKEN_OPERATOR, operators[i].text))
      {
        *op = operators[i].op;
        return TRUE;
      }
  *op = OP_IN;
  if (plumb_parse_take (p, TOKEN_NAME, "in"))
    return TRUE;
  if (!plumb_parse_is (p, TOKEN_NAME, "not") || p->token[1].kind != TOKEN_NAME
      || !g_str_equal (p->token[1].text, "in"))
    return FALSE;
  *op = OP_NOT_IN;
  p->token += 2;
  return TRUE;
}

static PlumbNode *
parse_compare (PlumbParser *p)
{
  PlumbNode *first = parse_level (p, 0), *node = NULL, **end = NULL;
  PlumbOperator op;

  while (first != NULL && take_comparison (p, &op))
    {
      PlumbNode *operand = binary (p, NODE_OPERAND, op, parse_level (p, 0), first);

      if (node == NULL)
        {
          node = plumb_node_new (p, NODE_COMPARE);
          node->a = first;
          end = &node->children;
        }
      if (!append (&end, operand))
        return NULL;
    }
  return node != NULL ? node : first;
}

static PlumbNode *
parse_not (PlumbParser *p)
{
  PlumbNode *node;

  if (!plumb_parse_is (p, TOKEN_NAME, "not"))
    return parse_compare (p);
  if (!plumb_parse_enter (p))
    return NULL;
  node = plumb_node_new (p, NODE_NOT);
  p->token++;
  node->a = parse_not (p);
  p->depth--;
  return node->a != NULL ? node : NULL;
}

static PlumbNode *
parse_and (PlumbParser *p)
{
  PlumbNode *node = parse_not (p);

  for (guint n = 0; node != NULL && plumb_parse_take (p, TOKEN_NAME, "and"); n++)
    node = n > PLUMB_TEMPLATE_DEPTH
               ? plumb_parse_fail (p, "an expression nests too deeply")
               : binary (p, NODE_AND, OP_ADD, node, parse_not (p));
  return node;
}

PlumbNode *
plumb_parse_or (PlumbParser *p)
{
  PlumbNode *node = parse_and (p);

  for (guint n = 0; node != NULL && plumb_parse_take (p, TOKEN_NAME, "or"); n++)
    node = n > PLUMB_TEMPLATE_DEPTH
               ? plumb_parse_fail (p, "an expression nests too deeply")
               : binary (p, NODE_OR, OP_ADD, node, parse_and (p));
  return node;
}

PlumbNode *
plumb_parse_expression (PlumbParser *p)
{
  PlumbNode *node;

  if (!plumb_parse_enter (p))
    return NULL;
  node = plumb_parse_or (p);
  for (guint n = 0; node != NULL && plumb_parse_take (p, TOKEN_NAME, "if"); n++)
    {
      PlumbNode *condition = plumb_node_new (p, NODE_CONDITION);

      if (n > PLUMB_TEMPLATE_DEPTH)
        return plumb_parse_fail (p, "an expression nests too deeply");
      condition->b = node;
      condition->a = plumb_parse_or (p);
      node = condition->a != NULL ? condition : NULL;
      if (node != NULL && plumb_parse_take (p, TOKEN_NAME, "else"))
        {
          condition->c = plumb_parse_expression (p);
          node = condition->c != NULL ? condition : NULL;
        }
    }
  p->depth--;
  return node;
}

static gboolean
ends_tuple (const PlumbParser *p)
{
  return p->token->kind == TOKEN_BLOCK_END || p->token->kind == TOKEN_OUTPUT_END
         || plumb_parse_is (p, TOKEN_OPERATOR, ")") || plumb_parse_is (p, TOKEN_NAME, "in");
}

PlumbNode *
plumb_parse_tuple (PlumbParser *p, gboolean conditional)
{
  PlumbNode *first = conditional ? plumb_parse_expression (p) : plumb_parse_or (p);
  PlumbNode *node, **end;

  if (first == NULL || !plumb_parse_is (p, TOKEN_OPERATOR, ","))
    return first;
  node = plumb_node_new (p, NODE_TUPLE);
  end = &node->children;
  append (&end, first);
  while (plumb_parse_take (p, TOKEN_OPERATOR, ",") && !ends_tuple (p))
    if (!append (&end, conditional ? plumb_parse_expression (p) : plumb_parse_or (p)))
      return NULL;
  return node;
}

static PlumbNode *
parse_single_target (PlumbParser *p)
{
  PlumbNode *node;

  if (plumb_parse_take (p, TOKEN_OPERATOR, "("))
    {
      node = plumb_parse_target (p);
      return node != NULL && plumb_parse_expect (p, TOKEN_OPERATOR, ")") ? node : NULL;
    }
  if (p->token->kind != TOKEN_NAME)
    return plumb_parse_fail (p, "a name to assign to is expected here");
  node = plumb_node_new (p, NODE_NAME);
  node->name = p->token++->text;
  return node;
}

PlumbNode *
plumb_parse_target (PlumbParser *p)
{
  PlumbNode *first, *node, **end;

  if (!plumb_parse_enter (p))
    return NULL;
  first = parse_single_target (p);
  if (first != NULL && plumb_parse_is (p, TOKEN_OPERATOR, ","))
    {
      node = plumb_node_new (p, NODE_TUPLE);
      end = &node->children;
      append (&end, first);
      while (plumb_parse_take (p, TOKEN_OPERATOR, ",") && !ends_tuple (p)
             && !plumb_parse_is (p, TOKEN_OPERATOR, "="))
        if (!append (&end, parse_single_target (p)))
          return NULL;
      first = node;
    }
  p->depth--;
  return first;
}
