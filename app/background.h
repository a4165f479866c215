/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "app/run.h"

G_BEGIN_DECLS

/* Reads of a run's files outside the main thread, on demand. */

/* Samples of one step. */
typedef struct
{
  GArray *steps;      /* gint64: all steps that hold samples, ascending */
  gint64 step;        /* of these samples; PLUMB_NO_STEP when there are none at all */
  GPtrArray *samples; /* PlumbSample, by prompt and sample */
} PlumbStepSamples;

void plumb_step_samples_free (PlumbStepSamples *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbStepSamples, plumb_step_samples_free)

/* PLUMB_NO_STEP asks for the newest step that has samples; a step without any gives the nearest
 * earlier one. A run that keeps no samples gives an empty result. */
void plumb_samples_load_async (PlumbRun *run,
                               gint64 step,
                               GCancellable *cancellable,
                               GAsyncReadyCallback callback,
                               gpointer user_data);
PlumbStepSamples *plumb_samples_load_finish (GAsyncResult *result, GError **error);

/* What the model answered to the same prompt at the nearest earlier step that kept an answer to it,
 * among the last few hundred; NULL without error when there is none. (transfer full) */
void plumb_sample_find_earlier_async (PlumbRun *run,
                                      const PlumbSample *sample,
                                      GCancellable *cancellable,
                                      GAsyncReadyCallback callback,
                                      gpointer user_data);
PlumbSample *plumb_sample_find_earlier_finish (GAsyncResult *result, GError **error);

/* The end of a text file of the run, from the start of a line on, as valid UTF-8: at most `limit`
 * bytes. `known_size` is the size at the last read: an unchanged file gives NULL without error. */
void plumb_text_load_async (const char *path,
                            gsize limit,
                            goffset known_size,
                            GCancellable *cancellable,
                            GAsyncReadyCallback callback,
                            gpointer user_data);
char *plumb_text_load_finish (GAsyncResult *result, goffset *size, GError **error);

G_END_DECLS
