/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out the statements of a template. */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/text/template-private.h"

void
plumb_frame_push (PlumbEval *e, PlumbFrame *outer)
{
  PlumbFrame *frame = plumb_arena_alloc (e->arena, sizeof *frame);

  frame->outer = outer;
  e->frame = frame;
}

void
plumb_frame_set (PlumbEval *e, PlumbFrame *frame, const char *name, PlumbValue value)
{
  for (gsize i = 0; i < frame->n; i++)
    if (g_str_equal (frame->variables[i].name, name))
      {
        frame->variables[i].value = value;
        return;
      }
  if (frame->n == frame->room)
    {
      PlumbVariable *old = frame->variables;

      frame->room = frame->room > 0 ? 2 * frame->room : 4;
      frame->variables = plumb_arena_alloc (e->arena, frame->room * sizeof (PlumbVariable));
      if (frame->n > 0)
        memcpy (frame->variables, old, frame->n * sizeof (PlumbVariable));
    }
  frame->variables[frame->n++] = (PlumbVariable){ name, value };
}

static void
assign (PlumbEval *e, const PlumbNode *target, const PlumbValue *value)
{
  const PlumbList *items;
  gsize i = 0;

  if (target->kind == NODE_NAME)
    {
      plumb_frame_set (e, e->frame, target->name, *value);
      return;
    }
  items = plumb_eval_items (e, value);
  if (items == NULL)
    return;
  for (const PlumbNode *part = target->children; part != NULL; part = part->next, i++)
    if (i < items->n)
      assign (e, part, &items->items[i]);
  if (i != items->n)
    plumb_eval_fail (e, "%" G_GSIZE_FORMAT " values are to be unpacked to %" G_GSIZE_FORMAT " names",
                     items->n, i);
}

/* {% set ns.a = ... %} */
static void
assign_attribute (PlumbEval *e, const PlumbNode *node, const PlumbValue *value)
{
  PlumbValue object = plumb_eval (e, node->a);
  PlumbValue name = PLUMB_TEXT (node->name, strlen (node->name));

  if (object.kind == VALUE_NAMESPACE)
    plumb_dict_set (e->arena, object.dict, name, *value);
  else
    plumb_eval_fail (e, "cannot assign attribute on non-namespace object");
}

static void
eval_set (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue value = plumb_eval (e, node->b);

  if (e->error != NULL)
    return;
  if (node->name != NULL)
    assign_attribute (e, node, &value);
  else
    assign (e, node->a, &value);
}

/* What statements put out, as a value. */
static PlumbValue
capture (PlumbEval *e, const PlumbNode *body)
{
  GString *outer = e->out;
  PlumbValue text;

  e->out = g_string_new (NULL);
  plumb_eval_statements (e, body);
  text = plumb_eval_take (e, e->out);
  e->out = outer;
  return text;
}

/* The filters of a block: the innermost takes the text of the block. */
static PlumbValue
apply_filters (PlumbEval *e, const PlumbNode *filter, PlumbValue text)
{
  PlumbArgs args;

  if (filter->a != NULL)
    text = apply_filters (e, filter->a, text);
  args = plumb_eval_args (e, filter->children);
  return e->error == NULL ? plumb_eval_filter (e, filter->name, &text, &args) : PLUMB_UNDEFINED;
}

static void
eval_captured (PlumbEval *e, const PlumbNode *node)
{
  PlumbFrame *outer = e->frame;
  PlumbValue text;

  plumb_frame_push (e, outer);
  text = capture (e, node->body);
  e->frame = outer;
  if (node->b != NULL)
    text = apply_filters (e, node->b, text);
  if (e->error != NULL)
    return;
  if (node->kind == NODE_FILTER_BLOCK)
    plumb_value_print (&text, e->out);
  else if (node->name != NULL)
    assign_attribute (e, node, &text);
  else
    assign (e, node->a, &text);
}

/* --- loops */

static gboolean
passes (PlumbEval *e, const PlumbNode *node, const PlumbValue *item, PlumbFrame *outer)
{
  PlumbValue result;

  plumb_frame_push (e, outer);
  assign (e, node->a, item);
  result = plumb_eval (e, node->c);
  e->frame = outer;
  return plumb_value_is_true (&result);
}

static const PlumbList *
filtered (PlumbEval *e, const PlumbNode *node, const PlumbList *items, PlumbFrame *outer)
{
  PlumbValue result = plumb_value_list (e->arena, VALUE_LIST);

  for (gsize i = 0; i < items->n && e->error == NULL; i++)
    if (passes (e, node, &items->items[i], outer))
      plumb_list_add (e->arena, result.list, items->items[i]);
  return result.list;
}

static void
run_loop (PlumbEval *e, const PlumbNode *node, const PlumbValue *over, gsize depth, PlumbFrame *outer)
{
  const PlumbList *items = plumb_eval_items (e, over);
  PlumbLoop *loop = plumb_arena_alloc (e->arena, sizeof *loop);

  if (items != NULL && node->c != NULL)
    items = filtered (e, node, items, outer);
  if (items == NULL || e->error != NULL)
    return;
  *loop = (PlumbLoop){ 0, items->n, depth, items, node->flag ? node : NULL, outer };
  for (; loop->index < items->n && e->error == NULL && e->flow != FLOW_BREAK; loop->index++)
    {
      e->flow = FLOW_ON;
      if (!plumb_eval_spend (e, 0))
        break;
      plumb_frame_push (e, outer);
      assign (e, node->a, &items->items[loop->index]);
      plumb_frame_set (e, e->frame, "loop", (PlumbValue){ .kind = VALUE_LOOP, .loop = loop });
      plumb_eval_statements (e, node->body);
    }
  e->flow = FLOW_ON;
  e->frame = outer;
  if (items->n == 0 && node->other != NULL)
    {
      plumb_frame_push (e, outer);
      plumb_eval_statements (e, node->other);
      e->frame = outer;
    }
}

PlumbValue
plumb_eval_loop_call (PlumbEval *e, const PlumbLoop *loop, const PlumbValue *items)
{
  GString *outer = e->out;
  PlumbFrame *frame = e->frame;
  PlumbValue text;

  if (loop->node == NULL)
    return plumb_eval_fail (e, "the loop must have the 'recursive' marker to be called");
  e->out = g_string_new (NULL);
  run_loop (e, loop->node, items, loop->depth + 1, loop->frame);
  text = plumb_eval_take (e, e->out);
  e->out = outer;
  e->frame = frame;
  return text;
}

/* --- macros */

static gboolean
is_parameter (const PlumbNode *macro, const char *name)
{
  for (const PlumbNode *parameter = macro->children; parameter != NULL; parameter = parameter->next)
    if (g_str_equal (parameter->name, name))
      return TRUE;
  return g_str_equal (name, "caller");
}

static void
bind_arguments (PlumbEval *e, const PlumbMacro *macro, const PlumbArgs *args)
{
  PlumbValue rest = plumb_value_list (e->arena, VALUE_TUPLE);
  PlumbValue named = plumb_value_dict (e->arena);
  gsize i = 0;

  for (const PlumbNode *parameter = macro->node->children; parameter != NULL;
       parameter = parameter->next, i++)
    {
      const PlumbValue *value = plumb_arg (args, i, parameter->name);
      PlumbValue missing = { .kind = VALUE_UNDEFINED, .name = parameter->name };

      if (value == NULL && parameter->a != NULL)
        missing = plumb_eval (e, parameter->a);
      plumb_frame_set (e, e->frame, parameter->name, value != NULL ? *value : missing);
    }
  for (; i < args->n; i++)
    plumb_list_add (e->arena, rest.list, args->values[i]);
  for (gsize j = 0; j < args->n_named; j++)
    if (!is_parameter (macro->node, args->names[j]))
      plumb_dict_set (e->arena, named.dict, PLUMB_TEXT (args->names[j], strlen (args->names[j])),
                      args->named[j]);
  plumb_frame_set (e, e->frame, "varargs", rest);
  plumb_frame_set (e, e->frame, "kwargs", named);
}

PlumbValue
plumb_eval_macro (PlumbEval *e, const PlumbMacro *macro, const PlumbArgs *args)
{
  PlumbFrame *outer = e->frame;
  const PlumbValue *caller = plumb_arg (args, G_MAXSIZE, "caller");
  PlumbValue text;

  plumb_frame_push (e, macro->frame);
  bind_arguments (e, macro, args);
  if (caller != NULL)
    plumb_frame_set (e, e->frame, "caller", *caller);
  text = capture (e, macro->node->body);
  e->flow = FLOW_ON;
  e->frame = outer;
  return text;
}

static PlumbValue
make_macro (PlumbEval *e, const PlumbNode *node)
{
  PlumbMacro *macro = plumb_arena_alloc (e->arena, sizeof *macro);

  *macro = (PlumbMacro){ node, e->frame };
  return (PlumbValue){ .kind = VALUE_MACRO, .macro = macro };
}

/* {% call f (x) %} ... {% endcall %}: f with caller() as a macro of the block. */
static void
eval_call_block (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue callee = plumb_eval (e, node->a->a), text;
  PlumbArgs args = plumb_eval_args (e, node->a->children);
  const char **names = plumb_arena_alloc (e->arena, (args.n_named + 1) * sizeof (char *));
  PlumbValue *named = plumb_arena_alloc (e->arena, (args.n_named + 1) * sizeof (PlumbValue));

  if (e->error != NULL)
    return;
  for (gsize i = 0; i < args.n_named; i++)
    {
      names[i] = args.names[i];
      named[i] = args.named[i];
    }
  names[args.n_named] = "caller";
  named[args.n_named] = make_macro (e, node);
  args.names = names;
  args.named = named;
  args.n_named++;
  text = plumb_eval_call (e, &callee, &args);
  if (e->error == NULL)
    plumb_value_print (&text, e->out);
}

/* --- the rest */

static void
eval_if (PlumbEval *e, const PlumbNode *node)
{
  for (;; node = node->other)
    {
      PlumbValue condition = plumb_eval (e, node->a);

      if (e->error != NULL)
        return;
      if (plumb_value_is_true (&condition))
        {
          plumb_eval_statements (e, node->body);
          return;
        }
      if (node->other == NULL)
        break;
    }
  plumb_eval_statements (e, node->c);
}

static void
eval_with (PlumbEval *e, const PlumbNode *node)
{
  PlumbFrame *outer = e->frame, *inner;

  plumb_frame_push (e, outer);
  inner = e->frame;
  for (const PlumbNode *set = node->children; set != NULL && e->error == NULL; set = set->next)
    {
      PlumbValue value;

      e->frame = outer;
      value = plumb_eval (e, set->b);
      e->frame = inner;
      assign (e, set->a, &value);
    }
  if (e->error == NULL)
    plumb_eval_statements (e, node->body);
  e->frame = outer;
}

/* A span counts where its text goes to the output itself, not to a variable. */
static void
eval_generation (PlumbEval *e, const PlumbNode *node)
{
  PlumbFrame *outer = e->frame;
  PlumbTextSpan span = { .start = e->out->len };

  plumb_frame_push (e, outer);
  plumb_eval_statements (e, node->body);
  e->frame = outer;
  span.end = e->out->len;
  if (e->spans != NULL && e->out == e->main && span.end > span.start)
    g_array_append_val (e->spans, span);
}

static void
eval_statement (PlumbEval *e, const PlumbNode *node)
{
  PlumbValue value;

  switch (node->kind)
    {
    case NODE_DATA:
      g_string_append_len (e->out, node->value.s, node->value.n);
      break;
    case NODE_OUTPUT:
      value = plumb_eval (e, node->a);
      if (e->error == NULL)
        plumb_value_print (&value, e->out);
      break;
    case NODE_IF:
      eval_if (e, node);
      break;
    case NODE_FOR:
      value = plumb_eval (e, node->b);
      if (e->error == NULL)
        run_loop (e, node, &value, 1, e->frame);
      break;
    case NODE_SET:
      eval_set (e, node);
      break;
    case NODE_SET_BLOCK:
    case NODE_FILTER_BLOCK:
      eval_captured (e, node);
      break;
    case NODE_MACRO:
      plumb_frame_set (e, e->frame, node->name, make_macro (e, node));
      break;
    case NODE_CALL_BLOCK:
      eval_call_block (e, node);
      break;
    case NODE_WITH:
      eval_with (e, node);
      break;
    case NODE_GENERATION:
      eval_generation (e, node);
      break;
    case NODE_DO:
      plumb_eval (e, node->a);
      break;
    case NODE_BREAK:
      e->flow = FLOW_BREAK;
      break;
    case NODE_CONTINUE:
      e->flow = FLOW_CONTINUE;
      break;
    default:
      plumb_eval_fail (e, "an expression stands where a statement is expected");
    }
}

void
plumb_eval_statements (PlumbEval *e, const PlumbNode *first)
{
  if (++e->depth > PLUMB_EVAL_DEPTH)
    plumb_eval_fail (e, "maximum recursion depth exceeded");
  for (const PlumbNode *node = first; node != NULL && e->flow == FLOW_ON && e->error == NULL;
       node = node->next)
    {
      if (!plumb_eval_spend (e, node->kind == NODE_DATA ? node->value.n : 0))
        break;
      e->line = node->line;
      eval_statement (e, node);
    }
  e->depth--;
}
