/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"
#include "engine/run/placement.h"

G_BEGIN_DECLS

/* What a run will take. Seconds are measured on a trial of a few real steps, and NaN without one. */
typedef struct
{
  PlumbMemoryPlan memory;    /* of the first worker, and of the others together */
  GArray *workers;           /* of PlumbPlacedWorker */
  char *device;
  gint64 supervised, online; /* steps of each kind */
  double supervised_seconds, online_seconds; /* of one step */
  GArray *phases;            /* of PlumbPlanPhase, of one step of the longer kind */
  gsize disk;                /* bytes: checkpoints that are kept, and the export */
  guint64 disk_available;
} PlumbRunPlan;

typedef struct
{
  char *name;
  double seconds;
} PlumbPlanPhase;

void plumb_run_plan_clear (PlumbRunPlan *plan);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (PlumbRunPlan, plumb_run_plan_clear)

/* Opens what the run reads and plans its memory; with `trial` it then runs a few steps of it, in a folder that is
 * removed again, and measures them. */
gboolean plumb_run_plan_make (PlumbRunPlan *plan, PlumbSpec *spec, gboolean trial, GError **error);
/* Seconds of all steps. */
double plumb_run_plan_seconds (const PlumbRunPlan *plan);

G_END_DECLS
