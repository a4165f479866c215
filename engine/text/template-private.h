/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "engine/text/template.h"

G_BEGIN_DECLS

/* A chat template is Jinja. Source becomes tokens (template-lexer.c), tokens a tree of nodes (template-parser.c, template-expression.c),
 * and a tree with variables a text (template-eval.c, template-statement.c). Values live in an arena until the rendering ends. */

/* --- arena and values: template-value.c */

typedef struct
{
  GPtrArray *blocks;
  char *next;
  gsize left, used;
} PlumbArena;

void plumb_arena_init (PlumbArena *arena);
void plumb_arena_clear (PlumbArena *arena);
/* Zeroed memory, never NULL. */
gpointer plumb_arena_alloc (PlumbArena *arena, gsize size);
char *plumb_arena_copy (PlumbArena *arena, const char *text, gsize length);

typedef enum
{
  VALUE_UNDEFINED,
  VALUE_NONE,
  VALUE_BOOL,
  VALUE_INT,
  VALUE_FLOAT,
  VALUE_STRING,
  VALUE_LIST,
  VALUE_TUPLE,
  VALUE_DICT,
  VALUE_NAMESPACE,
  VALUE_LOOP,
  VALUE_MACRO,
  VALUE_FUNCTION,
  VALUE_METHOD,
} PlumbValueKind;

typedef struct _PlumbValue PlumbValue;
typedef struct _PlumbEval PlumbEval;
typedef struct _PlumbNode PlumbNode;
typedef struct _PlumbFrame PlumbFrame;

typedef struct
{
  PlumbValue *items;
  gsize n, room;
  gsize weight; /* bytes that it takes to spell, about */
  guint depth;  /* of the values in it */
} PlumbList;

typedef struct
{
  PlumbValue *keys, *values;
  gsize n, room;
  gsize weight;
  guint depth;
} PlumbDict;

typedef struct
{
  gsize index, length, depth;
  const PlumbList *items;
  const PlumbNode *node; /* of a recursive loop */
  PlumbFrame *frame;
  PlumbValue *changed; /* what ifchanged() saw last; NULL: nothing yet */
} PlumbLoop;

typedef struct
{
  const PlumbNode *node; /* of the macro or of the call block */
  PlumbFrame *frame;     /* where it was defined */
} PlumbMacro;

/* Arguments of a call: by place, then by name. */
typedef struct
{
  const PlumbValue *values;
  gsize n;
  const char *const *names;
  const PlumbValue *named;
  gsize n_named;
} PlumbArgs;

typedef PlumbValue (*PlumbCall) (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args);

typedef struct
{
  const char *name;
  PlumbCall call;
} PlumbBuiltin;

typedef struct _PlumbMethod PlumbMethod;

struct _PlumbValue
{
  PlumbValueKind kind;
  union
  {
    gboolean b;
    gint64 i;
    double f;
    struct
    {
      const char *s;
      gsize n; /* bytes */
    };
    struct
    {
      const char *name;  /* of what is not defined */
      const char *owner; /* of what it is no attribute; NULL: it is a variable; "": `name` says all */
    };
    PlumbList *list;
    PlumbDict *dict;
    PlumbLoop *loop;
    PlumbMacro *macro;
    const PlumbBuiltin *function;
    PlumbMethod *method;
  };
};

struct _PlumbMethod
{
  PlumbValue self;
  const PlumbBuiltin *builtin;
};

#define PLUMB_NONE ((PlumbValue){ .kind = VALUE_NONE })
#define PLUMB_UNDEFINED ((PlumbValue){ .kind = VALUE_UNDEFINED })
#define PLUMB_BOOL(x) ((PlumbValue){ .kind = VALUE_BOOL, .b = !!(x) })
#define PLUMB_INT(x) ((PlumbValue){ .kind = VALUE_INT, .i = (x) })
#define PLUMB_FLOAT(x) ((PlumbValue){ .kind = VALUE_FLOAT, .f = (x) })
#define PLUMB_TEXT(text, length) ((PlumbValue){ .kind = VALUE_STRING, .s = (text), .n = (length) })

gboolean plumb_value_is_true (const PlumbValue *value);
gboolean plumb_value_equal (const PlumbValue *a, const PlumbValue *b);
/* How much it takes to spell a value, and how deeply it nests: values may share parts, so that a few lines of a
 * template can make one that no memory can print. */
gsize plumb_value_weight (const PlumbValue *value);
/* Bytes that one look at all of it costs, without what its parts hold. */
gsize plumb_value_size (const PlumbValue *value);
guint plumb_value_depth (const PlumbValue *value);
/* "str", "list", ... as Python names types */
const char *plumb_value_type (const PlumbValue *value);
/* As str() and repr() of Python spell it. */
void plumb_value_print (const PlumbValue *value, GString *out);
void plumb_value_repr (const PlumbValue *value, GString *out);
void plumb_append_float (double number, GString *out);

PlumbValue plumb_value_list (PlumbArena *arena, PlumbValueKind kind);
void plumb_list_add (PlumbArena *arena, PlumbList *list, PlumbValue value);
PlumbValue plumb_value_dict (PlumbArena *arena);
void plumb_dict_set (PlumbArena *arena, PlumbDict *dict, PlumbValue key, PlumbValue value);
/* The same for a key that is known to be new. */
void plumb_dict_add (PlumbArena *arena, PlumbDict *dict, PlumbValue key, PlumbValue value);
const PlumbValue *plumb_dict_get (const PlumbDict *dict, const PlumbValue *key); /* NULL: none */
const PlumbValue *plumb_dict_get_text (const PlumbDict *dict, const char *key);
PlumbValue plumb_value_from_json (PlumbArena *arena, JsonNode *node);

/* --- tokens: template-lexer.c */

typedef enum
{
  TOKEN_DATA,
  TOKEN_OUTPUT_BEGIN,
  TOKEN_OUTPUT_END,
  TOKEN_BLOCK_BEGIN,
  TOKEN_BLOCK_END,
  TOKEN_NAME,
  TOKEN_STRING,
  TOKEN_INT,
  TOKEN_FLOAT,
  TOKEN_OPERATOR,
  TOKEN_END,
} PlumbTokenKind;

typedef struct
{
  PlumbTokenKind kind;
  guint line;
  const char *text; /* of the arena */
  gsize length;
  gint64 integer;
  double number;
} PlumbToken;

/* Array of PlumbToken that ends with TOKEN_END. */
GArray *plumb_template_lex (PlumbArena *arena, const char *source, gsize length, GError **error);

/* --- nodes: template-parser.c, template-expression.c */

typedef enum
{
  /* expressions */
  NODE_CONST,
  NODE_NAME,
  NODE_LIST,
  NODE_TUPLE,
  NODE_DICT, /* children: key, value, key, ... */
  NODE_ATTRIBUTE,
  NODE_ITEM,
  NODE_SLICE, /* as the second part of an item */
  NODE_CALL,
  NODE_FILTER,
  NODE_TEST,
  NODE_NEGATE,
  NODE_PLUS,
  NODE_NOT,
  NODE_AND,
  NODE_OR,
  NODE_COMPARE, /* a, then children of kind OPERAND */
  NODE_OPERAND,
  NODE_BINARY,
  NODE_CONDITION,
  NODE_ARGUMENT, /* a; name or NULL; op '*' or 'd' (two stars) */
  /* statements */
  NODE_DATA,
  NODE_OUTPUT,
  NODE_IF,
  NODE_FOR,
  NODE_SET,
  NODE_SET_BLOCK,
  NODE_MACRO,
  NODE_CALL_BLOCK,
  NODE_FILTER_BLOCK,
  NODE_WITH, /* children: NODE_SET, then body */
  NODE_GENERATION,
  NODE_DO,
  NODE_BREAK,
  NODE_CONTINUE,
} PlumbNodeKind;

typedef enum
{
  OP_ADD,
  OP_SUBTRACT,
  OP_MULTIPLY,
  OP_DIVIDE,
  OP_FLOOR_DIVIDE,
  OP_MODULO,
  OP_POWER,
  OP_CONCAT,
  OP_EQUAL,
  OP_NOT_EQUAL,
  OP_LESS,
  OP_LESS_EQUAL,
  OP_GREATER,
  OP_GREATER_EQUAL,
  OP_IN,
  OP_NOT_IN,
  OP_STAR,  /* of an argument */
  OP_STARS,
} PlumbOperator;

struct _PlumbNode
{
  PlumbNodeKind kind;
  guint line;
  PlumbOperator op;
  gboolean flag; /* TEST: negated; FOR: recursive */
  const char *name;
  PlumbValue value;         /* CONST, DATA */
  PlumbNode *a, *b, *c;     /* parts, by kind; IF: c is the body of "else", other the "elif" */
  PlumbNode *children;      /* linked by `next`: arguments, items, targets */
  PlumbNode *body, *other;  /* statements linked by `next` */
  PlumbNode *next;
};

#define PLUMB_TEMPLATE_DEPTH 100 /* nesting of a template, and of values in it */
#define PLUMB_EVAL_DEPTH 1000    /* expressions and statements within others, macros included */

typedef struct
{
  PlumbArena *arena;
  const PlumbToken *token;
  guint depth;
  gboolean has_generation;
  const char *name; /* for messages */
  GError *error;
} PlumbParser;

/* The statements of a template; NULL with an error. A template without any is a DATA node. */
PlumbNode *plumb_template_parse (PlumbParser *parser, GError **error);
PlumbNode *plumb_parse_expression (PlumbParser *p);
PlumbNode *plumb_parse_or (PlumbParser *p); /* without "if ... else" */
/* One or several with commas between: then a tuple. */
PlumbNode *plumb_parse_tuple (PlumbParser *p, gboolean conditional);
/* Names of a loop or an assignment. */
PlumbNode *plumb_parse_target (PlumbParser *p);
PlumbNode *plumb_parse_postfix (PlumbParser *p, PlumbNode *node);
/* The filters behind a value (NULL: behind "filter"). */
PlumbNode *plumb_parse_filters (PlumbParser *p, PlumbNode *node);
PlumbNode *plumb_parse_call (PlumbParser *p, PlumbNode *callee);
PlumbNode *plumb_node_new (PlumbParser *p, PlumbNodeKind kind);
gboolean plumb_parse_is (const PlumbParser *p, PlumbTokenKind kind, const char *text);
gboolean plumb_parse_take (PlumbParser *p, PlumbTokenKind kind, const char *text);
gboolean plumb_parse_expect (PlumbParser *p, PlumbTokenKind kind, const char *text);
/* The first error counts; returns NULL. */
gpointer plumb_parse_fail (PlumbParser *p, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* FALSE, with an error, when a template nests too deeply. */
gboolean plumb_parse_enter (PlumbParser *p);

/* --- rendering: template-eval.c, template-statement.c */

typedef struct
{
  const char *name;
  PlumbValue value;
} PlumbVariable;

struct _PlumbFrame
{
  PlumbFrame *outer;
  PlumbVariable *variables;
  gsize n, room;
};

struct _PlumbEval
{
  PlumbArena *arena;
  const char *name; /* of the template */
  GError *error;
  guint line;
  guint64 steps;
  guint depth;
  GString *out;
  const GString *main; /* the output of the template itself, in which spans count */
  GArray *spans;
  PlumbFrame *frame;
  GDateTime *now;
  enum
  {
    FLOW_ON,
    FLOW_BREAK,
    FLOW_CONTINUE
  } flow;
};

PlumbValue plumb_eval (PlumbEval *e, const PlumbNode *node);
void plumb_eval_statements (PlumbEval *e, const PlumbNode *first);
PlumbValue plumb_eval_call (PlumbEval *e, const PlumbValue *callee, const PlumbArgs *args);
PlumbValue plumb_eval_macro (PlumbEval *e, const PlumbMacro *macro, const PlumbArgs *args);
PlumbValue plumb_eval_loop_call (PlumbEval *e, const PlumbLoop *loop, const PlumbValue *items);
/* A filter by name on a value. */
PlumbValue plumb_eval_filter (
    PlumbEval *e, const char *name, const PlumbValue *self, const PlumbArgs *args);
gboolean plumb_eval_test (
    PlumbEval *e, const char *name, const PlumbValue *self, const PlumbArgs *args);
PlumbValue plumb_eval_binary (PlumbEval *e, PlumbOperator op, const PlumbValue *a, const PlumbValue *b);
gboolean
plumb_eval_compare (PlumbEval *e, PlumbOperator op, const PlumbValue *a, const PlumbValue *b);
PlumbValue plumb_eval_attribute (PlumbEval *e, const PlumbValue *object, const char *name);
PlumbValue plumb_eval_item (PlumbEval *e, const PlumbValue *object, const PlumbValue *key);
/* Arguments of a call as values; freed by the arena. */
PlumbArgs plumb_eval_args (PlumbEval *e, const PlumbNode *argument);
void plumb_frame_set (PlumbEval *e, PlumbFrame *frame, const char *name, PlumbValue value);
void plumb_frame_push (PlumbEval *e, PlumbFrame *outer);

/* The items of anything that can be gone through; NULL with an error for the rest. */
const PlumbList *plumb_eval_items (PlumbEval *e, const PlumbValue *value);
/* Returns an undefined value; the first error counts. */
PlumbValue plumb_eval_fail (PlumbEval *e, const char *format, ...) G_GNUC_PRINTF (2, 3);
/* Counts work; FALSE, with an error, when there was too much. `bytes` are what it is about to take. */
gboolean plumb_eval_spend (PlumbEval *e, gsize bytes);
PlumbValue plumb_eval_text (PlumbEval *e, const char *text, gsize length); /* a copy */
PlumbValue plumb_eval_take (PlumbEval *e, GString *text);                  /* frees it */
/* Argument `index` or `name`, or NULL. */
const PlumbValue *plumb_arg (const PlumbArgs *args, gsize index, const char *name);
/* The same as an integer, or `otherwise`. */
gint64 plumb_arg_int (PlumbEval *e, const PlumbArgs *args, gsize index, const char *name, gint64 otherwise);
gboolean plumb_arg_bool (const PlumbArgs *args, gsize index, const char *name, gboolean otherwise);
/* As a text of the arena; `otherwise` when it is missing; an error when it is none. */
PlumbValue plumb_arg_text (
    PlumbEval *e, const PlumbArgs *args, gsize index, const char *name, const char *otherwise);

/* Tables by name; NULL: none. */
const PlumbBuiltin *plumb_builtin_find (const PlumbBuiltin *table, gsize n, const char *name);
const PlumbBuiltin *plumb_filter_find (const char *name);      /* template-filter.c */
const PlumbBuiltin *plumb_list_filter_find (const char *name); /* template-filter-list.c */
const PlumbBuiltin *plumb_function_find (const char *name);    /* template-function.c */
const PlumbBuiltin *plumb_string_method_find (const char *name); /* template-method.c */
const PlumbBuiltin *plumb_dict_method_find (const char *name);
const PlumbBuiltin *plumb_list_method_find (const char *name);

/* json.dumps: template-json.c */
PlumbValue plumb_filter_tojson (PlumbEval *e, const PlumbValue *self, const PlumbArgs *args);
/* Characters, not bytes: template-method.c */
gsize plumb_text_count (const PlumbValue *text);
PlumbValue plumb_text_slice (PlumbEval *e, const PlumbValue *text, gint64 start, gint64 stop, gint64 step);
PlumbValue plumb_text_strip (const PlumbValue *text, const PlumbValue *chars, gboolean left, gboolean right);
PlumbValue plumb_text_replace (
    PlumbEval *e, const PlumbValue *text, const PlumbValue *old, const PlumbValue *content, gint64 most);
PlumbValue plumb_text_case (PlumbEval *e, const PlumbValue *text, char how); /* u, l, t(itle), c(apital) */
PlumbValue plumb_text_format (PlumbEval *e, const PlumbValue *format, const PlumbArgs *args); /* % */

G_END_DECLS
