/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: the language, its limits, real templates, and the marks of trained tokens. */
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/core/json-tree.h"
#include "engine/text/template.h"
#include "tests/unit/shared.h"
#include "tests/unit/temporary.h"

static JsonNode *
parse (const char *json)
{
  g_autoptr (GError) error = NULL;
  JsonNode *node = json_from_string (json, &error);

  g_assert_no_error (error);
  return node;
}

static char *
render (const char *source, const char *messages, gboolean prompt, GArray *spans, GError **error)
{
  g_autoptr (PlumbTemplate) template = plumb_template_new ("t", source, -1, error);
  g_autoptr (JsonNode) node = parse (messages);

  return template != NULL ? plumb_template_render (template, node, prompt, NULL, spans, error) : NULL;
}

static const char conversation[] = "[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":"
                                   "\"Yes \",\"n\":{\"a\":1,\"b\":[1.5,null,true,\"x\\ny\"]}}]";

typedef struct
{
  const char *source, *text;
} Case;

static void
check_cases (const Case *cases, gsize n)
{
  for (gsize i = 0; i < n; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text = render (cases[i].source, conversation, FALSE, NULL, &error);

      if (g_strcmp0 (text, cases[i].text) != 0)
        g_error ("%s gives \"%s\", expected \"%s\" %s", cases[i].source, text, cases[i].text,
                 error != NULL ? error->message : "");
    }
}

/* Right values are Python's and Jinja's. */
static void
test_expressions (void)
{
  static const Case cases[] = {
    { "{{ 1+2*3 }} {{ 7//2 }} {{ -7//2 }} {{ -7%3 }} {{ 2**10 }} {{ 7/2 }} {{ 2**-1 }}", "7 3 -4 2 1024 3.5 0.5" },
    { "{{ 1e16 }} {{ 0.1+0.2 }} {{ 1.0 }} {{ 1e-5 }} {{ 123456.789 }}",
      "1e+16 0.30000000000000004 1.0 1e-05 123456.789" },
    { "{{ (1,) }} {{ [1,'a',none,true] }} {{ {'a':[2]} }} {{ [\"it's\"] }}",
      "(1,) [1, 'a', None, True] {'a': [2]} [\"it's\"]" },
    { "{{ 'a' ~ 1 ~ none }}{{ 'ab'*2 }}{{ 'a' 'b' }}{{ \"\\t\\x41\\u00e9\" }}", "a1Noneababab\tA\xc3\xa9" },
    { "{{ messages[-1].role[:4] }}{{ 'hello'[::-1] }}{{ 'h\xc3\xa9llo'[1:3] }}{{ messages[::-1][0].role }}",
      "assiolleh\xc3\xa9lassistant" },
    { "{{ nope }}|{{ nope is defined }}|{{ nope|default('d') }}|{{ messages[0].x is defined }}|{{ ''|d('e',true) }}",
      "|False|d|False|e" },
    { "{{ 'a' if false }}{{ 1 if false else 2 }}{{ 1 < 2 < 3 }}{{ 1 == 1.0 }}{{ none or 'x' }}{{ not 1 == 2 }}",
      "2TrueTruexTrue" },
    { "{{ 2 ** 3 ** 2 }} {{ 10 - 2 - 3 }} {{ -2**2 }} {{ 1 ~ 2 * 3 }}", "64 5 4 16" },
    { "{{ 'b' in 'abc' }}{{ 'z' not in ['z'] }}{{ 'role' in messages[0] }}", "TrueFalseTrue" },
  };

  check_cases (cases, G_N_ELEMENTS (cases));
}

static void
test_statements (void)
{
  static const Case cases[] = {
    { "{% for m in messages %}{{ loop.index }}{{ loop.last }}{{ m.role }};{% endfor %}", "1Falseuser;2Trueassistant;" },
    { "{% for m in messages if m.role == 'x' %}{% else %}none{% endfor %}", "none" },
    { "{% for k, v in {'a':1,'b':2}.items() %}{{k}}{{v}}{% endfor %}", "a1b2" },
    { "{% for i in range(9) %}{% if i==2 %}{% continue %}{% elif i==5 %}{% break %}{% endif %}{{i}}{% endfor %}",
      "0134" },
    { "{% set x = 1 %}{% for i in [1] %}{% set x = 5 %}{{x}}{% endfor %}{{x}}", "51" },
    { "{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "6" },
    { "{% macro f(a, b=2) %}[{{a}}{{b}}{{varargs}}{{kwargs}}]{% endmacro %}{{ f(1) }}{{ f(1,3,4,c=5) }}",
      "[12(){}][13(4,){'c': 5}]" },
    { "{% macro g() %}<{{ caller(3) }}>{% endmacro %}{% call(n) g() %}{{ n + 1 }}{% endcall %}", "<4>" },
    { "{% set z %} b{{ 1 }} {% endset %}[{{ z }}]{% filter upper %}x{% endfilter %}{% with a=1 %}{{a}}{% endwith %}",
      "[ b1 ]X1" },
    { "{% if false %}a{% elif false %}b{% else %}{% if true %}c{% endif %}d{% endif %}", "cd" },
    { "{% for i in [1,[2,[3]]] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}{% endif %}{% endfor %}",
      "1(2(3))" },
    { "{% macro r(n) %}{{ n }}{% if n %}{{ r(n-1) }}{% endif %}{% endmacro %}{{ r(9) }}", "9876543210" },
    { "{% raw %}{{ x {% y %}{% endraw %}{# gone #}", "{{ x {% y %}" },
  };

  check_cases (cases, G_N_ELEMENTS (cases));
}

static void
test_blanks (void)
{
  static const Case cases[] = {
    { "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  b\nc" },
    { "a \n {%- if true -%} \n b {% endif %}\n\nc", "ab \nc" },
    { "{%+ if true %} a {% endif +%}\nb", " a \nb" },
    { "x {{- ' y ' -}} z\n{#- c -#}\n w", "x y zw" },
    { "a\r\nb\rc\n\n", "a\nb\nc\n" },
    { "  {{ 1 }}\n  {{ 2 }}", "  1\n  2" },
  };

  check_cases (cases, G_N_ELEMENTS (cases));
}

static void
test_filters (void)
{
  static const Case cases[] = {
    { "{{ messages[1].n|tojson }}", "{\"a\": 1, \"b\": [1.5, null, true, \"x\\ny\"]}" },
    { "{{ {'b':[1],'a':{}}|tojson(indent=2) }}", "{\n  \"b\": [\n    1\n  ],\n  \"a\": {}\n}" },
    { "{{ {'b':1,'a':2}|tojson(sort_keys=true, separators=(',',':')) }}", "{\"a\":2,\"b\":1}" },
    { "{{ '\xc3\xa9<'|tojson }}{{ '\xc3\xa9'|tojson(ensure_ascii=true) }}", "\"\xc3\xa9<\"\"\\u00e9\"" },
    { "{{ messages[1].content|trim }}{{ 'xax'|trim('x') }}{{ 'aB'|upper }}{{ 'a-b c'|title }}", "YesaABA-B C" },
    { "{{ [3,1,2]|sort|join('-') }}{{ [1,2]|sum }}{{ [1,2]|last }}{{ ['b','A']|sort }}", "1-2-332['A', 'b']" },
    { "{{ messages|map(attribute='role')|join(',') }} {{ messages|selectattr('role','equalto','user')|list|length }}",
      "user,assistant 1" },
    { "{{ ['a','']|select|list }}{{ [1,2]|reject('eq',1)|list }}{{ ['a']|map('upper')|first }}", "['a'][2]A" },
    { "{{ '3'|int }}{{ 'x'|int(7) }}{{ 2.567|round(2) }}{{ 2.5|round }}{{ '0x1f'|int(base=16) }}", "372.572.031" },
    { "{{ {'b':2,'a':1}|dictsort }}{{ [1,2,3]|batch(2)|list }}{{ 'l\nm'|indent(2) }}",
      "[('a', 1), ('b', 2)][[1, 2], [3]]l\n  m" },
    { "{{ 'a,b'.split(',') }}{{ ' a b c'.split(none,1) }}{{ 'a-b-c'.rsplit('-',1) }}", "['a', 'b']['a', 'b c']['a-b', 'c']" },
    { "{{ 'abc'.startswith(('x','a')) }}{{ 'xyx'.strip('x') }}{{ 'aXbX'.replace('X','-',1) }}{{ 'abc'.find('c') }}",
      "Truey" "a-bX2" },
    { "{{ '%s=%05.1f%%' % ('a', 2.25) }}{{ '{} {k}'.format(1, k=2) }}", "a=002.2%1 2" },
    { "{{ 4 is even }}{{ 'a' is string }}{{ true is integer }}{{ 9 is divisibleby 3 }}{{ {} is mapping }}",
      "TrueTrueFalseTrueTrue" },
    { "{{ {'items':1}.items is callable }}{{ {'items':1}['items'] }}{{ {'a':1}.get('b','c') }}", "True1c" },
  };

  check_cases (cases, G_N_ELEMENTS (cases));
}

static void
test_errors (void)
{
  static const Case cases[] = {
    { "a\n\n{{ raise_exception('Boom ' ~ 1) }}", "t: line 3: Boom 1" },
    { "{{ nope.x }}", "'nope' is undefined" },
    { "{{ messages[0].x.y }}", "'dict object' has no attribute 'x'" },
    { "{{ messages[7].role }}", "list object has no element 7" },
    { "{{ 'a' + 1 }}", "can only concatenate str (not \"int\") to str" },
    { "{{ 1 + none }}", "unsupported operand type(s) for +: 'int' and 'NoneType'" },
    { "{{ 1/0 }}", "division by zero" },
    { "{{ nope() }}", "'nope' is undefined" },
    { "{{ 9223372036854775807 + 1 }}", "a number is too large" },
    { "{{ 1|nosuch }}", "No filter named 'nosuch'." },
    { "{{ 1 is nosuch }}", "No test named 'nosuch'." },
    { "{% nosuch %}", "Encountered unknown tag 'nosuch'." },
    { "{% if 1 %}", "'elif' is missing" },
    { "{{ 'a }}", "a string has no end" },
    { "{% set x = {} %}{% set x.a = 1 %}", "cannot assign attribute on non-namespace object" },
    { "{{ [].append(1) }}", "may not change a list" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *text = render (cases[i].source, conversation, FALSE, NULL, &error);

      g_assert_null (text);
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
      if (strstr (error->message, cases[i].text) == NULL)
        g_error ("%s fails with: %s", cases[i].source, error->message);
    }
}

/* Nothing that a template does takes memory or time without bound. */
static void
test_limits (void)
{
  static const char *const sources[] = {
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
    "{% set ns = namespace(s=1) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ 'a' * 99999999999 }}",
    "{{ ('a' * 9999999).replace('a', 'b' * 9999999) }}",
    "{{ range(999999) }}",
    "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
    "{{ 9 ** 9 ** 9 ** 9 }}",
  };
  g_autoptr (GString) deep = g_string_new ("{{ ");
  g_autofree char *text = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (sources); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *none = render (sources[i], conversation, FALSE, NULL, &error);

      if (none != NULL)
        g_error ("%s gives %" G_GSIZE_FORMAT " bytes", sources[i], strlen (none));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
    }
  for (int i = 0; i < 100000; i++)
    g_string_append_c (deep, '(');
  text = render (deep->str, conversation, FALSE, NULL, NULL);
  g_assert_null (text);
}

/* A namespace may hold itself. */
static void
test_cycle (void)
{
  g_autofree char *text = render ("{% set n = namespace() %}{% set n.n = [n] %}{{ n }}{{ n.n == n.n }}", "[]", FALSE,
                                  NULL, NULL);

  g_assert_cmpstr (text, ==, "<Namespace>True");
}

static void
test_generation (void)
{
  static const char source[] = "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
                               "{{ m.content }}.{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
  g_autoptr (GArray) spans = g_array_new (FALSE, FALSE, sizeof (PlumbTextSpan));
  g_autofree char *text = render (source, conversation, FALSE, spans, NULL);

  g_assert_cmpstr (text, ==, "<user>Hi<assistant>Yes .");
  g_assert_cmpuint (spans->len, ==, 1);
  g_assert_cmpuint (g_array_index (spans, PlumbTextSpan, 0).start, ==, 19);
  g_assert_cmpuint (g_array_index (spans, PlumbTextSpan, 0).end, ==, 24);
}

/* --- conversations, with a tokenizer of bytes whose special tokens are <bos>, <eos>, <spare0> ... */

static PlumbTokenizer *
load_tokenizer (void)
{
  g_autofree char *folder = temporary_folder ();
  PlumbTokenizer *tokenizer;

  g_assert_true (plumb_tokenizer_write_bytes (folder, 260, NULL));
  tokenizer = plumb_tokenizer_load (folder, NULL);
  remove_folder (folder);
  return tokenizer;
}

#define TURN "<spare0>{{ m.role }}\n{{ text }}<spare1>\n"
#define PLAIN                                                                                                          \
  "{% for m in messages %}{% set text = m.content %}" TURN                                                             \
  "{% endfor %}{% if add_generation_prompt %}<spare0>assistant\n{% endif %}"
/* Thinking is dropped from all turns but the last. */
#define FORGETFUL                                                                                                      \
  "{% for m in messages %}{% set text = m.content if loop.last else m.content.split('/')[-1] %}" TURN                  \
  "{% endfor %}{% if add_generation_prompt %}<spare0>assistant\n{% endif %}"

static char *
trained_text (PlumbTokenizer *tokenizer, const PlumbConversation *c)
{
  g_autoptr (GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));

  for (guint i = 0; i < c->ids->len; i++)
    if (g_array_index (c->trained, guint8, i))
      g_array_append_val (ids, g_array_index (c->ids, gint32, i));
  g_assert_cmpuint (ids->len, ==, c->n_trained);
  return plumb_tokenizer_decode (tokenizer, (gpointer)ids->data, ids->len, FALSE, NULL);
}

static GPtrArray *
encode (PlumbTokenizer *tokenizer,
        const char *source,
        const char *messages,
        PlumbTrainedTurns turns,
        PlumbConversationNotes *notes)
{
  g_autoptr (PlumbTemplate) template = plumb_template_new ("t", source, -1, NULL);
  g_autoptr (JsonNode) node = parse (messages);
  g_autoptr (GError) error = NULL;
  GPtrArray *rows = plumb_conversation_encode (template, tokenizer, node, NULL, turns, notes, &error);

  g_assert_no_error (error);
  return rows;
}

static const char two_turns[]
    = "[{\"role\":\"user\",\"content\":\"yes\"},{\"role\":\"assistant\",\"content\":\"t/yes\"},"
      "{\"role\":\"user\",\"content\":\"yes\"},{\"role\":\"assistant\",\"content\":\"\"}]";

static void
test_prefix_mask (void)
{
  g_autoptr (PlumbTokenizer) tokenizer = load_tokenizer ();
  PlumbConversationNotes notes;
  g_autoptr (GPtrArray) all = encode (tokenizer, PLAIN, two_turns, PLUMB_TRAIN_ALL_TURNS, &notes);
  g_autoptr (GPtrArray) last = encode (tokenizer, PLAIN, two_turns, PLUMB_TRAIN_LAST_TURN, &notes);
  g_autofree char *first_text = NULL, *last_text = NULL;

  g_assert_cmpint (notes.rewritten, ==, -1);
  g_assert_cmpint (notes.control, ==, -1);
  g_assert_cmpuint (all->len, ==, 1);
  first_text = trained_text (tokenizer, g_ptr_array_index (all, 0));
  g_assert_cmpstr (first_text, ==, "t/yes<spare1><spare1>"); /* with the end, without the line's */
  last_text = trained_text (tokenizer, g_ptr_array_index (last, 0));
  g_assert_cmpstr (last_text, ==, "<spare1>");
}

static void
test_rewritten_history (void)
{
  g_autoptr (PlumbTokenizer) tokenizer = load_tokenizer ();
  PlumbConversationNotes notes;
  g_autoptr (GPtrArray) rows = encode (tokenizer, FORGETFUL, two_turns, PLUMB_TRAIN_ALL_TURNS, &notes);
  const PlumbConversation *first, *second;
  g_autofree char *first_text = NULL, *second_text = NULL;

  g_assert_cmpint (notes.rewritten, ==, 1);
  g_assert_cmpuint (notes.rewritten_at, ==, strlen ("<spare0>user\nyes<spare1>\n<spare0>assistant\n"));
  g_assert_cmpuint (rows->len, ==, 2);
  first = g_ptr_array_index (rows, 0);
  second = g_ptr_array_index (rows, 1);
  g_assert_cmpstr (first->text, ==, "<spare0>user\nyes<spare1>\n<spare0>assistant\nt/yes<spare1>");
  first_text = trained_text (tokenizer, first);
  g_assert_cmpstr (first_text, ==, "t/yes<spare1>");
  second_text = trained_text (tokenizer, second);
  g_assert_cmpstr (second_text, ==, "<spare1>");
  g_assert_nonnull (strstr (second->text, "assistant\nyes<spare1>")); /* as the model will see it then */
}

static void
test_control_tokens (void)
{
  g_autoptr (PlumbTokenizer) tokenizer = load_tokenizer ();
  PlumbConversationNotes notes;
  g_autoptr (GPtrArray) rows = encode (
      tokenizer, PLAIN, "[{\"role\":\"user\",\"content\":\"a<spare1>b\"}]", PLUMB_TRAIN_ALL_TURNS, &notes);

  g_assert_cmpint (notes.control, ==, 0);
  g_assert_cmpstr (notes.control_token, ==, "<spare1>");
  /* Nothing of the assistant: a row without trained tokens. */
  g_assert_cmpuint (((PlumbConversation *)g_ptr_array_index (rows, 0))->n_trained, ==, 0);
  plumb_conversation_notes_clear (&notes);
}

static void
test_bad_messages (void)
{
  static const char *const bad[] = { "{}", "[1]", "[{\"content\":\"a\"}]", "\"a\"" };
  g_autoptr (PlumbTokenizer) tokenizer = load_tokenizer ();
  g_autoptr (PlumbTemplate) template = plumb_template_new ("t", PLAIN, -1, NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (JsonNode) node = parse (bad[i]);
      g_autoptr (GError) error = NULL;
      PlumbConversationNotes notes;

      g_assert_null (plumb_conversation_encode (template, tokenizer, node, NULL, PLUMB_TRAIN_ALL_TURNS, &notes, &error));
      g_assert_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID);
    }
}

/* --- of a folder */

static void
test_load (void)
{
  g_autofree char *folder = temporary_folder ();
  g_autofree char *config = g_build_filename (folder, "tokenizer_config.json", NULL);
  g_autofree char *file = g_build_filename (folder, "chat_template.jinja", NULL);
  g_autoptr (JsonNode) none = parse ("[]");
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTemplate) template = plumb_template_load (folder, &error);
  g_autofree char *text = NULL, *other = NULL;

  g_assert_null (template);
  g_assert_nonnull (strstr (error->message, "no chat template"));
  g_file_set_contents (config,
                       "{\"bos_token\":{\"content\":\"<b>\"},\"eos_token\":\"</b>\",\"chat_template\":[{\"name\":\"x\","
                       "\"template\":\"no\"},{\"name\":\"default\",\"template\":\"{{ bos_token }}{{ eos_token }}\"}]}",
                       -1, NULL);
  template = plumb_template_load (folder, NULL);
  text = plumb_template_render (template, none, FALSE, NULL, NULL, NULL);
  g_assert_cmpstr (text, ==, "<b></b>");
  g_file_set_contents (file, "file {{ bos_token }}", -1, NULL);
  plumb_template_unref (template);
  template = plumb_template_load (folder, NULL);
  other = plumb_template_render (template, none, FALSE, NULL, NULL, NULL);
  g_assert_cmpstr (other, ==, "file <b>");
  remove_folder (folder);
}

/* --- real templates, where they are at hand */

static void
check_render (JsonObject *row, const char *folder)
{
  const char *name = json_object_get_string_member (row, "template");
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (PlumbTemplate) template = plumb_template_load (path, &error);
  g_autofree char *text = NULL;

  g_assert_no_error (error);
  text = plumb_template_render (template, json_object_get_member (row, "messages"),
                                json_object_get_boolean_member (row, "add_generation_prompt"),
                                json_object_get_object_member (row, "variables"), NULL, &error);
  if (!json_object_has_member (row, "error"))
    g_assert_cmpstr (text, ==, json_object_get_string_member (row, "text"));
  else
    {
      g_assert_null (text);
      g_assert_true (g_str_has_suffix (error->message, json_object_get_string_member (row, "error")));
    }
}

static void
test_real_renders (void)
{
  g_autofree char *folder = shared_file ("tokenizers/chat_templates");
  g_autofree char *path = g_build_filename (g_getenv ("PLUMB_TEST_FIXTURES") != NULL ? g_getenv ("PLUMB_TEST_FIXTURES")
                                                                                     : "tests/fixtures",
                                            "chat_renders.json", NULL);
  g_autoptr (JsonParser) parser = NULL;
  g_autoptr (GError) error = NULL;
  JsonArray *rows;

  if (folder == NULL)
    return;
  parser = plumb_json_parse_file (path, 1 << 24, &error);
  g_assert_no_error (error);
  rows = json_node_get_array (json_parser_get_root (parser));
  g_assert_cmpuint (json_array_get_length (rows), ==, 40);
  for (guint i = 0; i < json_array_get_length (rows); i++)
    check_render (json_array_get_object_element (rows, i), folder);
}

/* Qwen 3's template drops the thinking of turns before the last question, but not within a chain of tools. */
static void
test_real_thinking (void)
{
  g_autofree char *folder = shared_file ("tokenizers/qwen3");
  g_autoptr (PlumbTokenizer) tokenizer = NULL;
  g_autoptr (PlumbTemplate) template = NULL;
  g_autoptr (GPtrArray) rows = NULL, chain = NULL;
  g_autoptr (JsonNode) turns = NULL, tools = NULL;
  g_autofree char *first = NULL, *second = NULL, *third = NULL;
  PlumbConversationNotes notes;

  if (folder == NULL)
    return;
  tokenizer = plumb_tokenizer_load (folder, NULL);
  template = plumb_template_load (folder, NULL);
  turns = parse ("[{\"role\":\"user\",\"content\":\"Is 15 prime?\"},{\"role\":\"assistant\",\"content\":\"<think>\\n3*5"
                 "\\n</think>\\n\\nNo.\"},{\"role\":\"user\",\"content\":\"17?\"},{\"role\":\"assistant\",\"content\":"
                 "\"<think>\\nok\\n</think>\\n\\nYes.\"}]");
  rows = plumb_conversation_encode (template, tokenizer, turns, NULL, PLUMB_TRAIN_ALL_TURNS, &notes, NULL);
  g_assert_cmpint (notes.rewritten, ==, 1);
  g_assert_cmpint (notes.control, ==, -1); /* an assistant may think */
  g_assert_cmpuint (rows->len, ==, 2);
  first = trained_text (tokenizer, g_ptr_array_index (rows, 0));
  g_assert_cmpstr (first, ==, "<think>\n3*5\n</think>\n\nNo.<|im_end|>");
  second = trained_text (tokenizer, g_ptr_array_index (rows, 1));
  g_assert_cmpstr (second, ==, "<think>\nok\n</think>\n\nYes.<|im_end|>");
  tools = parse ("[{\"role\":\"user\",\"content\":\"2*3?\"},{\"role\":\"assistant\",\"content\":\"<think>\\na\\n</think>"
                 "\\n\\nb\"},{\"role\":\"tool\",\"content\":\"6\"},{\"role\":\"assistant\",\"content\":\"6\"}]");
  chain = plumb_conversation_encode (template, tokenizer, tools, NULL, PLUMB_TRAIN_ALL_TURNS, &notes, NULL);
  g_assert_cmpint (notes.rewritten, ==, -1);
  g_assert_cmpuint (chain->len, ==, 1);
  third = trained_text (tokenizer, g_ptr_array_index (chain, 0));
  g_assert_cmpstr (third, ==,
                   "<think>\na\n</think>\n\nb<|im_end|><think>\n\n</think>\n\n6<|im_end|>");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/template/expressions", test_expressions);
  g_test_add_func ("/template/statements", test_statements);
  g_test_add_func ("/template/blanks", test_blanks);
  g_test_add_func ("/template/filters", test_filters);
  g_test_add_func ("/template/errors", test_errors);
  g_test_add_func ("/template/limits", test_limits);
  g_test_add_func ("/template/cycle", test_cycle);
  g_test_add_func ("/template/generation", test_generation);
  g_test_add_func ("/template/prefix-mask", test_prefix_mask);
  g_test_add_func ("/template/rewritten-history", test_rewritten_history);
  g_test_add_func ("/template/control-tokens", test_control_tokens);
  g_test_add_func ("/template/bad-messages", test_bad_messages);
  g_test_add_func ("/template/load", test_load);
  g_test_add_func ("/template/real/renders", test_real_renders);
  g_test_add_func ("/template/real/thinking", test_real_thinking);
  return g_test_run ();
}
