/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Estimators of the divergence between two policies from the log-probs of a sampled token (Schulman
 * 2020, "Approximating KL divergence"): with d = logp_a - logp_b, k1 = d, k2 = d^2 / 2,
 * k3 = exp (-d) - 1 + d, each clamped to [-10, 10]. */
enum plumb_kl_estimator
{
  PLUMB_KL_K1,
  PLUMB_KL_K2,
  PLUMB_KL_K3,
};

/* The estimate in nats; *derivative (or NULL) gets its derivative by d, 0 where the clamp holds it. */
double plumb_kl (enum plumb_kl_estimator, double d, double *derivative);

/* The adaptive coefficient of Ziegler et al. 2019: coefficient (1 + clip (kl / target - 1, -0.2, 0.2) samples /
 * horizon). */
double plumb_kl_adapt (double coefficient, double kl, double target, double samples, double horizon);
