/* SPDX-License-Identifier: Apache-2.0 */

/* The table of ops that the module exports. */

#include "kernels/cuda/context.cuh"

static struct dev_ops
make_table (void)
{
  struct dev_ops ops = {};
  ops.version = DEV_VERSION;
  ops.layout = DEV_LAYOUT;
  ops.name = "cuda";
#define OP(name) ops.name = cuda_##name
  OP (open);
  OP (close);
  OP (info);
  OP (attention_path);
  OP (status);
  OP (workspace_size);
  OP (set_deterministic);
  OP (range);
  OP (arena_reserve);
  OP (arena_base);
  OP (arena_commit);
  OP (arena_decommit);
  OP (arena_free);
  OP (upload);
  OP (download);
  OP (download_later);
  OP (host_allocate);
  OP (host_free);
  OP (mark_new);
  OP (mark_set);
  OP (mark_wait);
  OP (mark_free);
  OP (copy);
  OP (zero);
  OP (convert);
  OP (gather_rows);
  OP (scatter_rows);
  OP (take_tokens);
  OP (record_begin);
  OP (record_end);
  OP (replay);
  OP (graph_free);
  OP (pack_size);
  OP (pack);
  OP (encode);
  OP (linear_forward);
  OP (linear_backward);
  OP (embed_forward);
  OP (embed_backward);
  OP (add_norm_forward);
  OP (add_norm_backward);
  OP (qkv_forward);
  OP (qkv_backward);
  OP (attention_forward);
  OP (attention_backward);
  OP (swiglu_forward);
  OP (swiglu_backward);
  OP (norm_qkv_forward);
  OP (norm_swiglu_forward);
  OP (head_forward);
  OP (head_backward);
  OP (head_both);
  OP (head_logits);
  OP (head_sample);
  OP (value_forward);
  OP (value_backward);
  OP (adamw);
  OP (square_sum);
#undef OP
  return ops;
}

extern "C" __attribute__ ((visibility ("default"))) const struct dev_ops *
dev_backend (void)
{
  static const struct dev_ops ops = make_table ();
  return &ops;
}
