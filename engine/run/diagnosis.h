/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Looks at the metrics of a run for the ways in which runs fail, and explains what it sees. It knows metrics by
 * their names alone, so a recorded run can be replayed through it. */
typedef struct _PlumbDiagnosis PlumbDiagnosis;

typedef struct
{
  const char *kind;    /* "dead-reward" */
  const char *message; /* what is seen, and what it means */
  const char *remedy;  /* what to try */
} PlumbFinding;

PlumbDiagnosis *plumb_diagnosis_new (void);
void plumb_diagnosis_free (PlumbDiagnosis *diagnosis);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (PlumbDiagnosis, plumb_diagnosis_free)

void plumb_diagnosis_see (PlumbDiagnosis *diagnosis, const char *metric, double value);
/* After all metrics of a step: the next thing found that was not told before, or NULL. A thing that went away may be
 * told again. */
const PlumbFinding *plumb_diagnosis_next (PlumbDiagnosis *diagnosis);

G_END_DECLS
