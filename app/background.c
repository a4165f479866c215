/* SPDX-License-Identifier: Apache-2.0 */
#define G_LOG_DOMAIN "plumbline"
#include "config.h"

#include <string.h>

#include "app/background.h"

#define MAX_SAMPLES 4096 /* of one step */
#define MAX_STEPS 300    /* that are searched for an earlier answer */

void
plumb_step_samples_free (PlumbStepSamples *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->steps, g_array_unref);
  g_clear_pointer (&self->samples, g_ptr_array_unref);
  g_free (self);
}

typedef struct
{
  char *path;
  gint64 step;
  char *prompt; /* the text and the set of a search for an earlier answer */
  char *set;
  gboolean eval;
  gint64 sample;
} SamplesQuery;

static void
samples_query_free (gpointer data)
{
  SamplesQuery *self = data;

  g_free (self->path);
  g_free (self->prompt);
  g_free (self->set);
  g_free (self);
}

/* The last step that is not above the wanted one, else the first. */
static gint64
choose_step (GArray *steps, gint64 wanted)
{
  gint64 step = PLUMB_NO_STEP;

  for (guint i = 0; i < steps->len; i++)
    if (i == 0 || wanted == PLUMB_NO_STEP || g_array_index (steps, gint64, i) <= wanted)
      step = g_array_index (steps, gint64, i);
  return step;
}

static void
samples_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  const SamplesQuery *query = data;
  g_autoptr (PlumbStepSamples) found = g_new0 (PlumbStepSamples, 1);
  GError *error = NULL;

  found->step = PLUMB_NO_STEP;
  if (!g_file_test (query->path, G_FILE_TEST_EXISTS))
    {
      found->steps = g_array_new (FALSE, FALSE, sizeof (gint64));
      found->samples = g_ptr_array_new ();
    }
  else
    {
      found->steps = plumb_samples_steps (query->path, &error);
      if (found->steps != NULL)
        {
          found->step = choose_step (found->steps, query->step);
          found->samples = plumb_samples_read (query->path, found->step, found->step, MAX_SAMPLES,
                                               TRUE, &error);
        }
    }
  if (error != NULL)
    g_task_return_error (task, error);
  else
    g_task_return_pointer (task, g_steal_pointer (&found), (GDestroyNotify)plumb_step_samples_free);
}

static SamplesQuery *
new_query (PlumbRun *run, gint64 step)
{
  const PlumbRunInfo *info = plumb_run_get_info (run);
  SamplesQuery *query = g_new0 (SamplesQuery, 1);

  query->step = step;
  if (info != NULL && info->status != NULL && info->status->samples != NULL
      && *info->status->samples != '\0')
    query->path = g_strdup (info->status->samples);
  else
    query->path = g_build_filename (plumb_run_get_path (run), PLUMB_RUN_SAMPLES, NULL);
  return query;
}

void
plumb_samples_load_async (PlumbRun *run,
                          gint64 step,
                          GCancellable *cancellable,
                          GAsyncReadyCallback callback,
                          gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (run, cancellable, callback, user_data);
  SamplesQuery *query = new_query (run, step);

  g_task_set_source_tag (task, plumb_samples_load_async);
  g_task_set_task_data (task, query, samples_query_free);
  g_task_run_in_thread (task, samples_thread);
}

PlumbStepSamples *
plumb_samples_load_finish (GAsyncResult *result, GError **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

/* The answer with the same number within its group, else the first one to that prompt. */
static PlumbSample *
take_answer (GPtrArray *samples, const SamplesQuery *query)
{
  guint found = G_MAXUINT;

  for (guint i = 0; i < samples->len; i++)
    {
      const PlumbSample *sample = samples->pdata[i];

      if (!!sample->eval != query->eval || g_strcmp0 (sample->set, query->set) != 0
          || g_strcmp0 (sample->prompt_text, query->prompt) != 0)
        continue;
      if (found == G_MAXUINT || sample->sample == query->sample)
        found = i;
    }
  return found < samples->len ? g_ptr_array_steal_index (samples, found) : NULL;
}

static void
earlier_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  const SamplesQuery *query = data;
  GError *error = NULL;
  g_autoptr (GArray) steps = plumb_samples_steps (query->path, &error);
  guint n_searched = 0;

  for (guint i = steps != NULL ? steps->len : 0; i-- > 0 && n_searched < MAX_STEPS;)
    {
      gint64 step = g_array_index (steps, gint64, i);
      g_autoptr (GPtrArray) samples = NULL;
      PlumbSample *found;

      if (step >= query->step)
        continue;
      if (g_task_return_error_if_cancelled (task))
        return;
      n_searched++;
      samples = plumb_samples_read (query->path, step, step, MAX_SAMPLES, FALSE, &error);
      if (samples == NULL)
        break;
      found = take_answer (samples, query);
      if (found != NULL)
        {
          g_task_return_pointer (task, found, (GDestroyNotify)plumb_sample_free);
          return;
        }
    }
  if (error != NULL)
    g_task_return_error (task, error);
  else
    g_task_return_pointer (task, NULL, NULL);
}

void
plumb_sample_find_earlier_async (PlumbRun *run,
                                 const PlumbSample *sample,
                                 GCancellable *cancellable,
                                 GAsyncReadyCallback callback,
                                 gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (run, cancellable, callback, user_data);
  SamplesQuery *query = new_query (run, sample->step);

  query->prompt = g_strdup (sample->prompt_text);
  query->set = g_strdup (sample->set);
  query->eval = sample->eval;
  query->sample = sample->sample;
  g_task_set_source_tag (task, plumb_sample_find_earlier_async);
  g_task_set_task_data (task, query, samples_query_free);
  g_task_run_in_thread (task, earlier_thread);
}

PlumbSample *
plumb_sample_find_earlier_finish (GAsyncResult *result, GError **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

typedef struct
{
  char *path;
  gsize limit;
  goffset known_size;
  goffset size;
} TextQuery;

static void
text_query_free (gpointer data)
{
  TextQuery *self = data;

  g_free (self->path);
  g_free (self);
}

/* A cut line at the start is left out. */
static char *
tidy (char *bytes, gsize length, gboolean cut)
{
  g_autofree char *owned = bytes;
  const char *start = bytes;
  const char *line = cut ? memchr (bytes, '\n', length) : NULL;

  if (line != NULL)
    start = line + 1;
  return g_utf8_make_valid (start, length - (start - bytes));
}

static void
text_thread (GTask *task, gpointer source, gpointer data, GCancellable *cancellable)
{
  TextQuery *query = data;
  g_autoptr (GFile) file = g_file_new_for_path (query->path);
  g_autoptr (GFileInputStream) stream = NULL;
  g_autoptr (GFileInfo) info = NULL;
  g_autofree char *bytes = NULL;
  GError *error = NULL;
  gsize length, wanted;
  goffset from;

  stream = g_file_read (file, cancellable, &error);
  if (stream != NULL)
    info = g_file_input_stream_query_info (stream, G_FILE_ATTRIBUTE_STANDARD_SIZE, cancellable,
                                           &error);
  if (info == NULL)
    {
      g_task_return_error (task, error);
      return;
    }
  query->size = g_file_info_get_size (info);
  if (query->size == query->known_size)
    {
      g_task_return_pointer (task, NULL, NULL);
      return;
    }
  from = MAX (0, query->size - (goffset)query->limit);
  wanted = query->size - from;
  bytes = g_malloc (wanted + 1);
  if (!g_seekable_seek (G_SEEKABLE (stream), from, G_SEEK_SET, cancellable, &error)
      || !g_input_stream_read_all (G_INPUT_STREAM (stream), bytes, wanted, &length, cancellable,
                                   &error))
    g_task_return_error (task, error);
  else
    g_task_return_pointer (task, tidy (g_steal_pointer (&bytes), length, from > 0), g_free);
}

void
plumb_text_load_async (const char *path,
                       gsize limit,
                       goffset known_size,
                       GCancellable *cancellable,
                       GAsyncReadyCallback callback,
                       gpointer user_data)
{
  g_autoptr (GTask) task = g_task_new (NULL, cancellable, callback, user_data);
  TextQuery *query = g_new0 (TextQuery, 1);

  query->path = g_strdup (path);
  query->limit = limit;
  query->known_size = known_size;
  g_task_set_source_tag (task, plumb_text_load_async);
  g_task_set_task_data (task, query, text_query_free);
  g_task_run_in_thread (task, text_thread);
}

char *
plumb_text_load_finish (GAsyncResult *result, goffset *size, GError **error)
{
  TextQuery *query = g_task_get_task_data (G_TASK (result));
  char *text = g_task_propagate_pointer (G_TASK (result), error);

  *size = query->size;
  return text;
}
