/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "engine/core/error.h"
#include "engine/text/data-parquet-private.h"

#define MOST_FOOTER (256 << 20) /* bytes */
#define MOST_NODES 4096
#define DEEPEST 24
#define MOST_CHUNKS (1 << 22)

/* --- Thrift's compact protocol. The first fault stops the reader for good. */

typedef struct
{
  const guint8 *next, *end;
  gboolean bad;
} Thrift;

enum
{
  THRIFT_STOP = 0,
  THRIFT_TRUE = 1,
  THRIFT_FALSE = 2,
  THRIFT_BYTE = 3,
  THRIFT_DOUBLE = 7,
  THRIFT_BINARY = 8,
  THRIFT_LIST = 9,
  THRIFT_SET = 10,
  THRIFT_MAP = 11,
  THRIFT_STRUCT = 12,
};

static guint8
read_byte (Thrift *t)
{
  if (t->bad || t->next == t->end)
    {
      t->bad = TRUE;
      return 0;
    }
  return *t->next++;
}

static guint64
read_varint (Thrift *t)
{
  guint64 value = 0;

  for (guint shift = 0; shift < 64; shift += 7)
    {
      guint8 byte = read_byte (t);

      value |= (guint64)(byte & 0x7f) << shift;
      if (byte < 0x80)
        return value;
    }
  t->bad = TRUE;
  return 0;
}

static gint64
read_integer (Thrift *t)
{
  guint64 value = read_varint (t);

  return (gint64)(value >> 1) ^ -(gint64)(value & 1);
}

static const char *
read_binary (Thrift *t, gsize *length)
{
  guint64 n = read_varint (t);
  const char *data = (const char *)t->next;

  if (t->bad || n > (guint64)(t->end - t->next))
    {
      t->bad = TRUE;
      return NULL;
    }
  t->next += n;
  *length = n;
  return data;
}

/* The next field of a struct: its id in `id`, which holds that of the last. Returns its type; STOP at the end. */
static int
read_field (Thrift *t, int *id)
{
  guint8 head = read_byte (t);
  gint64 whole;

  if (t->bad || (head & 15) == THRIFT_STOP)
    return THRIFT_STOP;
  whole = head >> 4 != 0 ? *id + (head >> 4) : read_integer (t);
  *id = (int)CLAMP (whole, 0, 32767);
  return head & 15;
}

/* Elements of a list, and their type. */
static guint64
read_list (Thrift *t, int *type)
{
  guint8 head = read_byte (t);
  guint64 n = head >> 4;

  *type = head & 15;
  if (n == 15)
    n = read_varint (t);
  if (n > (guint64)(t->end - t->next)) /* each takes a byte at least */
    t->bad = TRUE;
  return t->bad ? 0 : n;
}

static void skip (Thrift *t, int type, int depth);

/* An element of a list or map: other than in a struct, a boolean takes a byte. Each takes one at least. */
static void
skip_element (Thrift *t, int type, int depth)
{
  if (type == THRIFT_TRUE || type == THRIFT_FALSE)
    read_byte (t);
  else
    skip (t, type, depth);
}

static void
skip (Thrift *t, int type, int depth)
{
  int id = 0, inner, key;
  guint64 n;
  gsize length;

  if (depth > DEEPEST)
    t->bad = TRUE;
  if (t->bad || type == THRIFT_TRUE || type == THRIFT_FALSE)
    return;
  switch (type)
    {
    case THRIFT_BYTE:
      read_byte (t);
      break;
    case THRIFT_DOUBLE:
      for (int i = 0; i < 8; i++)
        read_byte (t);
      break;
    case THRIFT_BINARY:
      read_binary (t, &length);
      break;
    case THRIFT_LIST:
    case THRIFT_SET:
      n = read_list (t, &inner);
      for (guint64 i = 0; i < n && !t->bad; i++)
        skip_element (t, inner, depth + 1);
      break;
    case THRIFT_MAP:
      n = read_varint (t);
      key = n > 0 ? read_byte (t) : 0;
      for (guint64 i = 0; i < n && !t->bad; i++)
        {
          skip_element (t, key >> 4, depth + 1);
          skip_element (t, key & 15, depth + 1);
        }
      break;
    case THRIFT_STRUCT:
      while ((inner = read_field (t, &id)) != THRIFT_STOP)
        skip (t, inner, depth + 1);
      break;
    default:
      read_varint (t); /* the integers */
      break;
    }
}

static gboolean
is_integer (int type)
{
  return type >= 4 && type <= 6;
}

/* --- the footer */

void
plumb_parquet_meta_free (PlumbParquetMeta *meta)
{
  for (guint i = 0; i < meta->nodes->len; i++)
    g_free (g_array_index (meta->nodes, PlumbParquetNode, i).name);
  g_array_unref (meta->nodes);
  g_array_unref (meta->chunks);
  g_array_unref (meta->n_rows);
  g_free (meta);
}

#define MOST_SCALE 4096 /* digits of a decimal */

/* What the older spelling of a meaning says (ConvertedType). */
static void
take_converted (PlumbParquetNode *node, gint64 converted)
{
  static const struct
  {
    int converted;
    PlumbParquetMeaning meaning;
    guint digits;
  } table[] = {
    { 3, PARQUET_LIST, 0 },       { 5, PARQUET_DECIMAL, 0 },   { 6, PARQUET_DATE, 0 },
    { 7, PARQUET_TIME, 3 },       { 8, PARQUET_TIME, 6 },      { 9, PARQUET_TIMESTAMP, 3 },
    { 10, PARQUET_TIMESTAMP, 6 }, { 11, PARQUET_UNSIGNED, 0 }, { 12, PARQUET_UNSIGNED, 0 },
    { 13, PARQUET_UNSIGNED, 0 },  { 14, PARQUET_UNSIGNED, 0 }, { 21, PARQUET_INTERVAL, 0 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (table) && node->meaning == PARQUET_AS_IT_IS; i++)
    if (table[i].converted == converted)
      {
        node->meaning = table[i].meaning;
        node->utc = node->meaning == PARQUET_TIMESTAMP;
        if (table[i].digits > 0)
          node->scale = table[i].digits;
      }
}

/* The members of a time: whether it is UTC, and a union that names the unit. */
static void
read_time (Thrift *t, PlumbParquetNode *node)
{
  int id = 0, type, unit = 0;

  node->utc = FALSE;
  while ((type = read_field (t, &id)) != THRIFT_STOP)
    if (id == 1 && (type == THRIFT_TRUE || type == THRIFT_FALSE))
      node->utc = type == THRIFT_TRUE;
    else if (id == 2 && type == THRIFT_STRUCT)
      {
        unit = 0;
        while ((type = read_field (t, &unit)) != THRIFT_STOP)
          {
            node->scale = 3 * (guint)CLAMP (unit, 1, 3);
            skip (t, type, 0);
          }
      }
    else
      skip (t, type, 0);
}

/* The members of a decimal or of a whole number. */
static void
read_numeric (Thrift *t, PlumbParquetNode *node, int kind)
{
  int id = 0, type;
  gint64 scale;

  while ((type = read_field (t, &id)) != THRIFT_STOP)
    if (kind == 5 && id == 1 && is_integer (type))
      {
        scale = read_integer (t);
        node->scale = (guint)CLAMP (scale, 0, MOST_SCALE + 1);
      }
    else if (kind == 10 && id == 2 && type == THRIFT_FALSE)
      node->meaning = PARQUET_UNSIGNED;
    else
      skip (t, type, 0);
}

/* The newer spelling (LogicalType): a union, whose member says what it is. */
static void
read_logical (Thrift *t, PlumbParquetNode *node)
{
  int id = 0, type;

  while ((type = read_field (t, &id)) != THRIFT_STOP)
    {
      node->meaning = id == 3    ? PARQUET_LIST
                      : id == 5  ? PARQUET_DECIMAL
                      : id == 6  ? PARQUET_DATE
                      : id == 7  ? PARQUET_TIME
                      : id == 8  ? PARQUET_TIMESTAMP
                      : id == 14 ? PARQUET_UUID
                      : id == 15 ? PARQUET_HALF
                                 : PARQUET_AS_IT_IS;
      if ((id == 7 || id == 8) && type == THRIFT_STRUCT)
        read_time (t, node);
      else if ((id == 5 || id == 10) && type == THRIFT_STRUCT)
        read_numeric (t, node, id);
      else
        skip (t, type, 0);
    }
}

/* What a meaning asks of the type below it; otherwise it is left aside. */
static void
check_meaning (PlumbParquetNode *node)
{
  gboolean whole = node->type == PARQUET_INT32 || node->type == PARQUET_INT64, fits = TRUE;
  gboolean bytes = node->type == PARQUET_BYTES || node->type == PARQUET_FIXED;

  switch (node->meaning)
    {
    case PARQUET_DECIMAL:
      fits = (whole || bytes) && node->scale <= MOST_SCALE;
      break;
    case PARQUET_DATE:
      fits = node->type == PARQUET_INT32;
      break;
    case PARQUET_TIME:
    case PARQUET_TIMESTAMP:
      fits = whole && (node->scale == 3 || node->scale == 6 || node->scale == 9);
      break;
    case PARQUET_UUID:
      fits = node->type == PARQUET_FIXED && node->width == 16;
      break;
    case PARQUET_HALF:
      fits = node->type == PARQUET_FIXED && node->width == 2;
      break;
    case PARQUET_INTERVAL:
    case PARQUET_AS_IT_IS:
    case PARQUET_UNSIGNED:
    case PARQUET_LIST:
      break;
    }
  if (!fits)
    node->meaning = PARQUET_AS_IT_IS;
}

static void
read_node (Thrift *t, PlumbParquetNode *node)
{
  int id = 0, type;
  gsize length;
  const char *name;
  gint64 value;

  *node = (PlumbParquetNode){ .type = PARQUET_GROUP };
  while ((type = read_field (t, &id)) != THRIFT_STOP)
    {
      if (id == 4 && type == THRIFT_BINARY)
        {
          name = read_binary (t, &length);
          g_free (node->name);
          node->name = name != NULL ? g_utf8_make_valid (name, length) : NULL;
          continue;
        }
      if (id == 10 && type == THRIFT_STRUCT)
        {
          read_logical (t, node);
          continue;
        }
      if (!is_integer (type))
        {
          skip (t, type, 0);
          continue;
        }
      value = read_integer (t);
      t->bad |= value < 0 || value > G_MAXINT32;
      if (id == 1)
        node->type = MIN (value, PARQUET_GROUP);
      else if (id == 2)
        node->width = value;
      else if (id == 3)
        node->repetition = MIN (value, PARQUET_REPEATED);
      else if (id == 5)
        node->children = value;
      else if (id == 6)
        take_converted (node, value);
      else if (id == 7)
        node->scale = (guint)MIN (value, MOST_SCALE + 1);
    }
  check_meaning (node);
  if (node->children > 0)
    node->type = PARQUET_GROUP;
  t->bad |= node->name == NULL || node->width > 1 << 20;
}

static void
read_schema (Thrift *t, PlumbParquetMeta *meta)
{
  int type;
  guint64 n = read_list (t, &type);

  t->bad |= type != THRIFT_STRUCT || n == 0 || n > MOST_NODES || meta->nodes->len > 0;
  for (guint64 i = 0; i < n && !t->bad; i++)
    {
      PlumbParquetNode node;

      read_node (t, &node);
      g_array_append_val (meta->nodes, node);
    }
}

/* Gives a node and those below it their levels and leaves; returns the place behind them, 0 if the tree is unsound. */
static guint
lay_out (PlumbParquetMeta *meta, guint at, guint8 def, guint8 rep, guint depth)
{
  PlumbParquetNode *node;
  guint next = at + 1;

  if (at >= meta->nodes->len || depth > DEEPEST)
    return 0;
  node = &g_array_index (meta->nodes, PlumbParquetNode, at);
  if (at > 0)
    {
      def += node->repetition != PARQUET_REQUIRED;
      rep += node->repetition == PARQUET_REPEATED;
    }
  node->max_def = def;
  node->max_rep = rep;
  node->depth = depth;
  node->first_leaf = meta->n_leaves;
  if (node->type != PARQUET_GROUP)
    meta->n_leaves++;
  else if (node->children == 0)
    return 0;
  for (guint i = 0; node->type == PARQUET_GROUP && i < node->children; i++)
    if ((next = lay_out (meta, next, def, rep, depth + 1)) == 0)
      return 0;
  node->end = next;
  node->n_leaves = meta->n_leaves - node->first_leaf;
  return next;
}

static void
read_chunk_meta (Thrift *t, PlumbParquetChunk *chunk)
{
  int id = 0, type;

  while ((type = read_field (t, &id)) != THRIFT_STOP)
    {
      if (!is_integer (type))
        {
          skip (t, type, 0);
          continue;
        }
      gint64 value = read_integer (t);

      t->bad |= value < 0;
      if (id == 4)
        chunk->codec = (int)MIN (value, 99);
      else if (id == 5)
        chunk->n_values = value;
      else if (id == 7)
        chunk->packed_size = value;
      else if (id == 9)
        chunk->offset = value;
      else if (id == 11)
        chunk->dictionary = value;
    }
}

static void
read_chunk (Thrift *t, PlumbParquetMeta *meta)
{
  PlumbParquetChunk chunk = { 0 };
  int id = 0, type;

  while ((type = read_field (t, &id)) != THRIFT_STOP)
    if (id == 3 && type == THRIFT_STRUCT)
      read_chunk_meta (t, &chunk);
    else
      skip (t, type, 0);
  g_array_append_val (meta->chunks, chunk);
}

static void
read_group (Thrift *t, PlumbParquetMeta *meta)
{
  int id = 0, type, inner;
  gint64 rows = 0;
  guint before = meta->chunks->len;
  guint64 n;

  while ((type = read_field (t, &id)) != THRIFT_STOP)
    if (id == 1 && type == THRIFT_LIST)
      {
        n = read_list (t, &inner);
        t->bad |= inner != THRIFT_STRUCT || meta->chunks->len + n > MOST_CHUNKS;
        for (guint64 i = 0; i < n && !t->bad; i++)
          read_chunk (t, meta);
      }
    else if (id == 3 && is_integer (type))
      rows = read_integer (t);
    else
      skip (t, type, 0);
  t->bad |= rows < 0 || meta->chunks->len - before != meta->n_leaves;
  g_array_append_val (meta->n_rows, rows);
}

static void
read_footer (Thrift *t, PlumbParquetMeta *meta)
{
  int id = 0, type, inner;
  guint64 n;

  while ((type = read_field (t, &id)) != THRIFT_STOP)
    if (id == 2 && type == THRIFT_LIST)
      {
        read_schema (t, meta);
        t->bad |= t->bad || lay_out (meta, 0, 0, 0, 0) != meta->nodes->len || meta->n_leaves == 0;
      }
    else if (id == 4 && type == THRIFT_LIST)
      {
        n = read_list (t, &inner);
        t->bad |= inner != THRIFT_STRUCT || meta->nodes->len == 0;
        for (guint64 i = 0; i < n && !t->bad; i++)
          read_group (t, meta);
      }
    else
      skip (t, type, 0);
  t->bad |= meta->nodes->len == 0;
}

PlumbParquetMeta *
plumb_parquet_meta_read (PlumbDataFile *file, GError **error)
{
  g_autoptr (PlumbParquetMeta) meta = g_new0 (PlumbParquetMeta, 1);
  const char *path = plumb_data_file_path (file);
  guint64 size = plumb_data_file_size (file), length;
  guint8 tail[8] = { 0 };
  g_autofree char *footer = NULL;
  Thrift t = { NULL };

  meta->nodes = g_array_new (FALSE, FALSE, sizeof (PlumbParquetNode));
  meta->chunks = g_array_new (FALSE, FALSE, sizeof (PlumbParquetChunk));
  meta->n_rows = g_array_new (FALSE, FALSE, sizeof (gint64));
  if (size >= 12 && !plumb_data_file_read (file, size - 8, 8, (char *)tail, error))
    return NULL;
  length = tail[0] | tail[1] << 8 | tail[2] << 16 | (guint64)tail[3] << 24;
  if (size < 12 || memcmp (tail + 4, "PAR1", 4) != 0 || length > size - 12 || length > MOST_FOOTER)
    {
      g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID,
                   "%s: this is no Parquet file, or it is cut short: it does not end as one", path);
      return NULL;
    }
  footer = g_malloc (length + 1);
  if (!plumb_data_file_read (file, size - 8 - length, length, footer, error))
    return NULL;
  t.next = (const guint8 *)footer;
  t.end = t.next + length;
  read_footer (&t, meta);
  if (!t.bad)
    return g_steal_pointer (&meta);
  g_set_error (error, PLUMB_ERROR, PLUMB_ERROR_INVALID, "%s: the description at the end of the file is damaged", path);
  return NULL;
}

/* --- pages */

static void
read_page_struct (Thrift *t, int kind, PlumbParquetPage *page)
{
  int id = 0, type;

  while ((type = read_field (t, &id)) != THRIFT_STOP)
    {
      if (kind == 8 && id == 7 && (type == THRIFT_TRUE || type == THRIFT_FALSE))
        page->is_packed = type == THRIFT_TRUE;
      if (!is_integer (type))
        {
          skip (t, type, 0);
          continue;
        }
      gint64 value = read_integer (t);

      t->bad |= value < 0;
      if (id == 1)
        page->n_values = value;
      else if (id == (kind == 8 ? 4 : 2))
        page->encoding = (int)MIN (value, 99);
      else if (kind == 8 && id == 5)
        page->def_bytes = value;
      else if (kind == 8 && id == 6)
        page->rep_bytes = value;
    }
}

gboolean
plumb_parquet_page_read (const guint8 *data, gsize length, PlumbParquetPage *page, gsize *used)
{
  Thrift t = { data, data + length, FALSE };
  int id = 0, type;

  *page = (PlumbParquetPage){ .type = -1, .unpacked = -1, .packed = -1, .is_packed = TRUE };
  while ((type = read_field (&t, &id)) != THRIFT_STOP)
    if (id <= 3 && is_integer (type))
      {
        gint64 value = read_integer (&t);

        *(id == 2 ? &page->unpacked : id == 3 ? &page->packed : &page->n_values) = value;
        if (id == 1)
          page->type = (int)CLAMP (value, -1, 99);
      }
    else if ((id == 5 || id == 7 || id == 8) && type == THRIFT_STRUCT)
      read_page_struct (&t, id, page);
    else
      skip (&t, type, 0);
  *used = t.next - data;
  return !t.bad && page->type >= 0 && page->unpacked >= 0 && page->packed >= 0;
}
