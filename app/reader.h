/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "engine/core/run-state.h"
#include "engine/core/telemetry-reader.h"

G_BEGIN_DECLS

/* The one thread that touches the files of runs. It looks at the telemetry of the visible run every
 * 250 ms, at the state of the others every two seconds, and at the registry of runs every five;
 * what it finds arrives in the main context as immutable results. */
#define PLUMB_TYPE_READER (plumb_reader_get_type ())
G_DECLARE_FINAL_TYPE (PlumbReader, plumb_reader, PLUMB, READER, GObject)

/* Something new about a run. Whoever gets it may keep references to its parts. */
typedef struct
{
  PlumbRunInfo *info; /* NULL: as before */
  PlumbChunk *chunk;  /* NULL: no new rows */
  gboolean restarted; /* the store is another one: forget its rows before adding the chunk */
  gboolean caught_up; /* from here on the history of the first charts is here, and all events */
  char *trouble;      /* why it could not be read; NULL: it could */
} PlumbReaderUpdate;

typedef void (*PlumbReaderUpdateFunc) (PlumbReaderUpdate *update, gpointer user_data);
typedef void (*PlumbReaderListFunc) (const char *const *paths, gpointer user_data);

PlumbReader *plumb_reader_new (void);

/* Calls back with the paths of all registered runs, newest first, whenever they change. */
void plumb_reader_set_list_func (PlumbReader *self, PlumbReaderListFunc func, gpointer user_data);
/* Looks at the registry now. */
void plumb_reader_poke (PlumbReader *self);

/* Watches a run until plumb_reader_unwatch, after which `func` is not called any more. */
guint plumb_reader_watch (PlumbReader *self,
                          const char *run,
                          PlumbReaderUpdateFunc func,
                          gpointer user_data);
void plumb_reader_unwatch (PlumbReader *self, guint watch);

/* Only a visible run's telemetry is read. */
void plumb_reader_set_visible (PlumbReader *self, guint watch, gboolean visible);
/* Looks at a run now: something was done to it. */
void plumb_reader_refresh (PlumbReader *self, guint watch);

/* Ends the thread. Called by dispose. */
void plumb_reader_stop (PlumbReader *self);

G_END_DECLS
