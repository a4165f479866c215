/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "engine/text/data-index.h"

#define IN_MEMORY 65536 /* rows */
#define MAGIC "PLUMBIX1"
#define MOST_NOTES (1 << 20) /* bytes */
#define BLOCK_ROWS 65536

struct _PlumbDataIndex
{
  GArray *places;      /* PlumbRecordPlace, while there are few */
  PlumbDataFile *file; /* of PlumbRecordPlace from `first` on; NULL: in memory */
  guint64 first;
  gsize n;
};

/* A kept index: this, the notes, the places. */
typedef struct
{
  char magic[8];
  PlumbFileStamp stamp;
  guint64 n, n_notes;
  guint8 recipe[32];
} Header;

PlumbDataIndex *
plumb_data_index_new (void)
{
  PlumbDataIndex *index = g_new0 (PlumbDataIndex, 1);

  index->places = g_array_new (FALSE, FALSE, sizeof (PlumbRecordPlace));
  return index;
}

void
plumb_data_index_free (PlumbDataIndex *index)
{
  g_array_unref (index->places);
  g_clear_pointer (&index->file, plumb_data_file_free);
  g_free (index);
}

gsize
plumb_data_index_n_rows (PlumbDataIndex *index)
{
  return index->n;
}

static gboolean
move_to_file (PlumbDataIndex *index, GError **error)
{
  index->file = plumb_data_file_new ("index of rows", error);
  if (index->file == NULL
      || !plumb_data_file_append (index->file, index->places->data, index->places->len * sizeof (PlumbRecordPlace),
                                  error))
    return FALSE;
  g_array_set_size (index->places, 0);
  return TRUE;
}

gboolean
plumb_data_index_append (PlumbDataIndex *index, const PlumbRecordPlace *place, GError **error)
{
  if (index->n == IN_MEMORY && !move_to_file (index, error))
    return FALSE;
  index->n++;
  if (index->file != NULL)
    return plumb_data_file_append (index->file, (const char *)place, sizeof *place, error);
  g_array_append_vals (index->places, place, 1);
  return TRUE;
}

/* What was appended may still wait to be written. */
static gboolean
read_places (PlumbDataIndex *index, gsize first, gsize n, PlumbRecordPlace *to, GError **error)
{
  if (index->file == NULL)
    {
      memcpy (to, &g_array_index (index->places, PlumbRecordPlace, first), n * sizeof *to);
      return TRUE;
    }
  return plumb_data_file_read (index->file, index->first + first * sizeof *to, n * sizeof *to, (char *)to, error);
}

gboolean
plumb_data_index_get (PlumbDataIndex *index, gsize row, PlumbRecordPlace *place, GError **error)
{
  g_return_val_if_fail (row < index->n, FALSE);
  return read_places (index, row, 1, place, error);
}

gboolean
plumb_data_index_finish (PlumbDataIndex *index, GError **error)
{
  return index->file == NULL || plumb_data_file_flush (index->file, error);
}

/* --- the cache */

static void
hash_recipe (const char *recipe, guint8 hash[32])
{
  g_autoptr (GChecksum) sum = g_checksum_new (G_CHECKSUM_SHA256);
  gsize length = 32;

  g_checksum_update (sum, (const guint8 *)recipe, -1);
  g_checksum_get_digest (sum, hash, &length);
}

/* One index for each path and recipe. */
static char *
cache_path (PlumbDataFile *file, const char *recipe, gboolean make)
{
  g_autofree char *cache = plumb_data_cache_folder ();
  g_autofree char *folder = g_build_filename (cache, "index", NULL);
  g_autofree char *whole = g_canonicalize_filename (plumb_data_file_path (file), NULL);
  g_autofree char *text = g_strconcat (whole, "\n", recipe, NULL);
  g_autofree char *hash = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);

  if (make)
    g_mkdir_with_parents (folder, 0700);
  return g_build_filename (folder, hash, NULL);
}

static gboolean
write_index (PlumbDataIndex *index, const Header *header, const char *notes, int fd)
{
  g_autofree PlumbRecordPlace *block = g_new (PlumbRecordPlace, BLOCK_ROWS);
  gboolean fine = write (fd, header, sizeof *header) == sizeof *header
                  && write (fd, notes, header->n_notes) == (gssize)header->n_notes;

  for (gsize i = 0; fine && i < index->n; i += BLOCK_ROWS)
    {
      gsize n = MIN (BLOCK_ROWS, index->n - i);

      fine = read_places (index, i, n, block, NULL)
             && write (fd, block, n * sizeof *block) == (gssize)(n * sizeof *block);
    }
  return fine;
}

void
plumb_data_index_keep (PlumbDataIndex *index, PlumbDataFile *file, const char *recipe, const char *notes)
{
  g_autofree char *path = cache_path (file, recipe, TRUE);
  g_autofree char *aside = g_strconcat (path, ".XXXXXX", NULL);
  Header header = { .stamp = *plumb_data_file_stamp (file), .n = index->n, .n_notes = strlen (notes) };
  int fd = g_mkstemp_full (aside, O_RDWR | O_CLOEXEC, 0600);
  gboolean fine;

  if (fd < 0)
    return;
  memcpy (header.magic, MAGIC, sizeof header.magic);
  hash_recipe (recipe, header.recipe);
  fine = header.n_notes <= MOST_NOTES && write_index (index, &header, notes, fd);
  close (fd);
  if (!fine || g_rename (aside, path) != 0)
    g_unlink (aside);
}

static gboolean
is_sound (const Header *header, PlumbDataFile *kept, PlumbDataFile *file, const char *recipe)
{
  guint8 hash[32];

  hash_recipe (recipe, hash);
  return memcmp (header->magic, MAGIC, sizeof header->magic) == 0
         && memcmp (&header->stamp, plumb_data_file_stamp (file), sizeof header->stamp) == 0
         && memcmp (header->recipe, hash, sizeof hash) == 0 && header->n_notes <= MOST_NOTES
         && header->n < G_MAXUINT32
         && plumb_data_file_size (kept) == sizeof *header + header->n_notes + header->n * sizeof (PlumbRecordPlace);
}

PlumbDataIndex *
plumb_data_index_find (PlumbDataFile *file, const char *recipe, char **notes)
{
  g_autofree char *path = cache_path (file, recipe, FALSE);
  g_autoptr (PlumbDataFile) kept
      = g_file_test (path, G_FILE_TEST_IS_REGULAR) ? plumb_data_file_open (path, NULL) : NULL;
  g_autofree char *text = NULL;
  PlumbDataIndex *index;
  Header header;

  if (kept == NULL || !plumb_data_file_read (kept, 0, sizeof header, (char *)&header, NULL)
      || !is_sound (&header, kept, file, recipe))
    return NULL;
  text = g_malloc0 (header.n_notes + 1);
  if (!plumb_data_file_read (kept, sizeof header, header.n_notes, text, NULL))
    return NULL;
  index = plumb_data_index_new ();
  index->file = g_steal_pointer (&kept);
  index->first = sizeof header + header.n_notes;
  index->n = header.n;
  *notes = g_steal_pointer (&text);
  return index;
}
