/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/ops-fixture.h"

/* The checks of test-ops that stand in files of their own. */

/* ops-attention.c */
void check_qkv (Fixture *f);
void check_attention (Fixture *f);
void check_large_attention (Fixture *f);
void check_coded (Fixture *f);
void test_code_values (void);
void check_norm_qkv (Fixture *f);
void test_differences_attention (void);
void test_library_attention (void);

/* ops-codes.c */
void test_codes (void);
void check_coded_weights (Fixture *f);
void test_coded_paths (void);
void test_handed_codes (void);

/* ops-head.c */
void check_head (Fixture *f);
void check_sample (Fixture *f);
void check_filters (Fixture *f);
void check_value (Fixture *f);
void test_sampling_distribution (void);
