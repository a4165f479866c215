/* SPDX-License-Identifier: Apache-2.0 */

/* The CPU's table of ops. */

#include "kernels/cpu/context.h"

static const struct dev_ops ops = {
  .version = DEV_VERSION,
  .layout = DEV_LAYOUT,
  .name = "cpu",
  .open = cpu_open,
  .close = cpu_close,
  .info = cpu_info,
  .attention_path = cpu_attention_path,
  .status = cpu_status,
  .workspace_size = cpu_workspace_size,
  .set_deterministic = cpu_set_deterministic,
  .range = cpu_range,
  .arena_reserve = cpu_arena_reserve,
  .arena_base = cpu_arena_base,
  .arena_commit = cpu_arena_commit,
  .arena_decommit = cpu_arena_decommit,
  .arena_free = cpu_arena_free,
  .upload = cpu_upload,
  .download = cpu_download,
  .download_later = cpu_download_later,
  .host_allocate = cpu_host_allocate,
  .host_free = cpu_host_free,
  .mark_new = cpu_mark_new,
  .mark_set = cpu_mark_set,
  .mark_wait = cpu_mark_wait,
  .mark_free = cpu_mark_free,
  .copy = cpu_copy,
  .zero = cpu_zero,
  .convert = cpu_convert,
  .gather_rows = cpu_gather_rows,
  .scatter_rows = cpu_scatter_rows,
  .take_tokens = cpu_take_tokens,
  .record_begin = cpu_record_begin,
  .record_end = cpu_record_end,
  .replay = cpu_replay,
  .graph_free = cpu_graph_free,
  .pack_size = cpu_pack_size,
  .pack = cpu_pack,
  .linear_forward = cpu_linear_forward,
  .linear_backward = cpu_linear_backward,
  .embed_forward = cpu_embed_forward,
  .embed_backward = cpu_embed_backward,
  .add_norm_forward = cpu_add_norm_forward,
  .add_norm_backward = cpu_add_norm_backward,
  .qkv_forward = cpu_qkv_forward,
  .qkv_backward = cpu_qkv_backward,
  .attention_forward = cpu_attention_forward,
  .attention_backward = cpu_attention_backward,
  .swiglu_forward = cpu_swiglu_forward,
  .swiglu_backward = cpu_swiglu_backward,
  .norm_qkv_forward = cpu_norm_qkv_forward,
  .norm_swiglu_forward = cpu_norm_swiglu_forward,
  .head_forward = cpu_head_forward,
  .head_backward = cpu_head_backward,
  .head_both = cpu_head_both,
  .head_logits = cpu_head_logits,
  .head_sample = cpu_head_sample,
  .value_forward = cpu_value_forward,
  .value_backward = cpu_value_backward,
  .adamw = cpu_adamw,
  .square_sum = cpu_square_sum,
};

const struct dev_ops *
dev_cpu (void)
{
  return &ops;
}
