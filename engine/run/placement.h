/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/core/spec.h"
#include "engine/run/settings.h"

G_BEGIN_DECLS

/* Which worker of a run works on which device. */

/* The devices that a spec names must be there: an error says which setting names one that is not. */
gboolean plumb_placement_check (PlumbSpec *spec, GError **error);

/* What the device of the run has. */
typedef struct
{
  guint64 memory_available;
  gboolean gpu;
} PlumbPlacementDevice;

/* Chooses the devices of those that train, and of what generates ahead; resolves what was automatic. */
gboolean plumb_placement_choose (PlumbWorkerSettings *settings, PlumbSpec *spec, PlumbPlacementDevice *device, GError **error);
/* Those of the roles, once the settings hold their models. */
gboolean plumb_placement_choose_roles (PlumbWorkerSettings *settings, PlumbSpec *spec, GError **error);

/* A worker, what it is to take, and where. */
typedef struct
{
  guint32 number;
  PlumbRole role;
  char *device;
  guint64 memory_available; /* bytes of the device, now */
  PlumbMemoryPlan memory;
} PlumbPlacedWorker;

/* The settings of a worker by its role, and for those that train by their rank; `device` (transfer full) is what
 * own->device points to where a GPU was counted on. */
void plumb_placement_settings (PlumbWorkerSettings *own, const PlumbWorkerSettings *settings, PlumbRole role, int rank,
                               char **device);
/* All workers in the order of their numbers: array of PlumbPlacedWorker. */
GArray *plumb_placement_plan (const PlumbWorkerSettings *settings, GError **error);
/* Bytes that workers of other roles are to take of the device of those that train. */
gsize plumb_placement_others (GArray *workers);
/* Each device, and the host beside the GPUs, must have the memory that all of its workers together are to take. */
gboolean plumb_placement_check_memory (GArray *workers, GError **error);
/* Sets what is left to the plan, train.recompute and placement.together, to the least that lets all workers fit; what was asked
 * for stays. Where nothing does, the most that saves memory: plumb_placement_check_memory() will say so. */
gboolean plumb_placement_fit (PlumbWorkerSettings *settings, gboolean any_recompute, gboolean any_together, GError **error);
/* Whether the run has a model, or a worker, of this role. */
gboolean plumb_placement_needs (PlumbSpec *spec, PlumbRole role);
/* Whether the spec gives the role a device of its own. */
gboolean plumb_placement_is_placed (PlumbSpec *spec, PlumbRole role);

G_END_DECLS
