/* SPDX-License-Identifier: Apache-2.0 */

/* A plain reference of each op, to test backends against: straight loops from the formulas, sums in double, one
 * thread, no tiles. Memory and copies are the CPU backend's. */

#include "kernels/cpu/context.h"
#include "kernels/e4m3.h"
#include "kernels/philox.h"

#include <math.h>   // defines: exp, log, sqrt
#include <stdlib.h> // defines: calloc, free

static double
get (const void *x, size_t i, enum dev_type type)
{
  return type == DEV_BF16 ? bf16_to_float (((const bf16 *) x)[i]) : ((const float *) x)[i];
}

static void
set (void *x, size_t i, double value, enum dev_type type)
{
  if (type == DEV_BF16)
    ((bf16 *) x)[i] = bf16_from_float ((float) value);
  else
    ((float *) x)[i] = (float) value;
}

/* Element c of row r of a matrix: where there are codes, what they stand for in the type. */
static double
weight (const struct dev_matrix *w, int r, int c, enum dev_type type)
{
  size_t i = (size_t) r * w->cols + c;
  if (!w->codes)
    return get (w->data, i, type);
  float value = e4m3_to_float (w->codes[i]) * w->code_scales[r];
  return type == DEV_BF16 ? bf16_to_float (bf16_from_float (value)) : value;
}

static void
encode (struct dev_context *context, uint8_t *codes, float *scales, const void *data, int rows, int cols,
        enum dev_type type)
{
  for (int r = 0; r < rows; r++)
    {
      double most = 0;
      for (int c = 0; c < cols; c++)
        most = fmax (most, fabs (get (data, (size_t) r * cols + c, type)));
      scales[r] = e4m3_row_scale ((float) most);
      for (int c = 0; c < cols; c++)
        codes[(size_t) r * cols + c] = e4m3_from_float ((float) get (data, (size_t) r * cols + c, type) / scales[r]);
    }
}

static void
linear_forward (struct dev_context *context, void *y, const void *x, const struct dev_matrix *w, int t,
                enum dev_type type)
{
  for (int i = 0; i < t; i++)
    for (int r = 0; r < w->rows; r++)
      {
        double sum = 0;
        for (int c = 0; c < w->cols; c++)
          sum += get (x, (size_t) i * w->cols + c, type) * weight (w, r, c, type);
        set (y, (size_t) i * w->rows + r, sum, type);
      }
}

static void
linear_backward (struct dev_context *context, void *dx, float *dw, bool add, const void *dy, const void *x,
                 const struct dev_matrix *w, int t, enum dev_type type)
{
  for (int i = 0; dx && i < t; i++)
    for (int c = 0; c < w->cols; c++)
      {
        double sum = 0;
        for (int r = 0; r < w->rows; r++)
          sum += get (dy, (size_t) i * w->rows + r, type) * get (w->data, (size_t) r * w->cols + c, type);
        set (dx, (size_t) i * w->cols + c, sum, type);
      }
  for (int r = 0; dw && r < w->rows; r++)
    for (int c = 0; c < w->cols; c++)
      {
        double sum = 0;
        for (int i = 0; i < t; i++)
          sum += get (dy, (size_t) i * w->rows + r, type) * get (x, (size_t) i * w->cols + c, type);
        dw[(size_t) r * w->cols + c] = (add ? dw[(size_t) r * w->cols + c] : 0) + (float) sum;
      }
}

static void
embed_forward (struct dev_context *context, float *x, const void *table, const int32_t *ids, int t,
               int width, enum dev_type type)
{
  for (int i = 0; i < t; i++)
    for (int c = 0; c < width; c++)
      x[(size_t) i * width + c] = (float) get (table, (size_t) ids[i] * width + c, type);
}

static void
embed_backward (struct dev_context *context, float *dtable, const float *dx, const int32_t *ids, int t,
                int width, int fixed)
{
  for (int i = 0; i < t; i++)
    for (int c = 0; ids[i] != fixed && c < width; c++)
      dtable[(size_t) ids[i] * width + c] += dx[(size_t) i * width + c];
}

static void
add_norm_forward (struct dev_context *context, float *sum, void *out, float *rstd, const float *x,
                  const void *delta, const void *weight, float eps, int t, int width, enum dev_type type)
{
  for (int i = 0; i < t; i++)
    {
      size_t at = (size_t) i * width;
      double squares = 0;
      for (int c = 0; c < width; c++)
        {
          sum[at + c] = (float) (x[at + c] + (delta ? get (delta, at + c, type) : 0));
          squares += (double) sum[at + c] * sum[at + c];
        }
      double r = 1 / sqrt (squares / width + eps);
      if (rstd)
        rstd[i] = (float) r;
      for (int c = 0; c < width; c++)
        set (out, at + c, sum[at + c] * r * get (weight, c, type), type);
    }
}

static void
add_norm_backward (struct dev_context *context, float *dx, void *dx_typed, float *dweight,
                   const void *dout, const float *sum, const float *rstd, const void *weight, int t,
                   int width, enum dev_type type)
{
  for (int i = 0; i < t; i++)
    {
      size_t at = (size_t) i * width;
      double dot = 0, r = rstd[i];
      for (int c = 0; c < width; c++)
        dot += get (dout, at + c, type) * get (weight, c, type) * sum[at + c] * r;
      for (int c = 0; c < width; c++)
        {
          double n = sum[at + c] * r, d = get (dout, at + c, type);
          dx[at + c] += (float) (r * (d * get (weight, c, type) - n * dot / width));
          dweight[c] += (float) (d * n);
          if (dx_typed)
            set (dx_typed, at + c, dx[at + c], type);
        }
    }
}

/* Head `index` of the raw row of token t with its bias, as doubles. */
static void
raw_head (double *to, const void *raw, const struct dev_qkv *qkv, const struct dev_attention *shape, int t,
          int index, enum dev_type type)
{
  int size = shape->head_size;
  size_t width = (size_t) (shape->heads + 2 * shape->groups) * size;
  for (int d = 0; d < size; d++)
    to[d] = get (raw, t * width + (size_t) index * size + d, type)
            + (qkv->bias ? get (qkv->bias, (size_t) index * size + d, type) : 0);
}

static const void *
head_norm (const struct dev_qkv *qkv, const struct dev_attention *shape, int index)
{
  if (index >= shape->heads + shape->groups)
    return NULL;
  return index < shape->heads ? qkv->q_norm : qkv->k_norm;
}

static void
rotate (double *x, const struct dev_qkv *qkv, int position, double sign, int size)
{
  int half = size / 2;
  for (int i = 0; i < half; i++)
    {
      double c = qkv->rope_cos[(size_t) position * half + i];
      double s = sign * qkv->rope_sin[(size_t) position * half + i];
      double a = x[i], b = x[i + half];
      x[i] = a * c - b * s;
      x[i + half] = b * c + a * s;
    }
}

/* A head as e4m3 codes, with the scale that its greatest element asks for. */
static void
store_codes (void *codes, float *scales, size_t row, const double *x, int size)
{
  float head[256];
  for (int d = 0; d < size; d++)
    head[d] = (float) x[d];
  scales[row] = e4m3_store ((uint8_t *) codes + row * size, head, size);
}

static void
qkv_forward (struct dev_context *context, void *q, const struct dev_kv *kv, const void *raw,
             const struct dev_qkv *qkv, const struct dev_attention *shape, const struct dev_batch *batch,
             enum dev_type type)
{
  int heads = shape->heads, groups = shape->groups, size = shape->head_size;
  double x[256];
  for (int t = 0; t < batch->tokens; t++)
    for (int index = 0; index < heads + 2 * groups; index++)
      {
        const void *norm = head_norm (qkv, shape, index);
        double squares = 0;
        raw_head (x, raw, qkv, shape, t, index, type);
        for (int d = 0; d < size; d++)
          squares += x[d] * x[d];
        for (int d = 0; norm && d < size; d++)
          x[d] *= get (norm, d, type) / sqrt (squares / size + qkv->eps);
        if (index < heads + groups)
          rotate (x, qkv, batch->positions[t], 1, size);
        size_t slot = batch->slots ? (size_t) batch->slots[t] : (size_t) t;
        if (index >= heads && kv->k_scales)
          {
            int of_values = index >= heads + groups;
            size_t row = slot * groups + (index - heads) % groups;
            store_codes (of_values ? kv->v : kv->k, of_values ? kv->v_scales : kv->k_scales, row, x, size);
            continue;
          }
        for (int d = 0; d < size; d++)
          if (index < heads)
            set (q, ((size_t) t * heads + index) * size + d, x[d], type);
          else if (index < heads + groups)
            set (kv->k, (slot * groups + index - heads) * size + d, x[d], type);
          else
            set (kv->v, (slot * groups + index - heads - groups) * size + d, x[d], type);
      }
}

static void
qkv_backward (struct dev_context *context, void *draw, float *dbias, float *dq_norm, float *dk_norm,
              const void *dq, const void *dk, const void *dv, const void *raw, const struct dev_qkv *qkv,
              const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  int heads = shape->heads, groups = shape->groups, size = shape->head_size;
  int width = (heads + 2 * groups) * size;
  double d[256], x[256];
  for (int t = 0; t < batch->tokens; t++)
    for (int index = 0; index < heads + 2 * groups; index++)
      {
        const void *norm = head_norm (qkv, shape, index);
        for (int i = 0; i < size; i++)
          d[i] = index < heads ? get (dq, ((size_t) t * heads + index) * size + i, type)
                 : index < heads + groups
                     ? get (dk, ((size_t) t * groups + index - heads) * size + i, type)
                     : get (dv, ((size_t) t * groups + index - heads - groups) * size + i, type);
        if (index < heads + groups)
          rotate (d, qkv, batch->positions[t], -1, size);
        raw_head (x, raw, qkv, shape, t, index, type);
        double squares = 0, dot = 0;
        for (int i = 0; norm && i < size; i++)
          {
            squares += x[i] * x[i];
            dot += d[i] * get (norm, i, type) * x[i];
          }
        double r = 1 / sqrt (squares / size + qkv->eps);
        float *dnorm = index < heads ? dq_norm : dk_norm;
        for (int i = 0; i < size; i++)
          {
            double value = d[i];
            if (norm)
              {
                dnorm[i] += (float) (d[i] * x[i] * r);
                value = r * (d[i] * get (norm, i, type) - x[i] * r * r * dot / size);
              }
            if (qkv->bias && dbias)
              dbias[index * size + i] += (float) value;
            set (draw, (size_t) t * width + (size_t) index * size + i, value, type);
          }
      }
}

static size_t
key_row (const struct dev_batch *batch, int s, int j)
{
  if (!batch->block_table)
    return (size_t) batch->query_offsets[s] + j;
  int page = batch->block_table[(size_t) s * batch->table_stride + j / batch->page_tokens];
  return (size_t) page * batch->page_tokens + j % batch->page_tokens;
}

/* Element d of a row and group of the cache. */
static double
cached (const void *of, const float *scales, size_t row, int d, int size, enum dev_type type)
{
  if (!scales)
    return get (of, row * size + d, type);
  return (double) e4m3_to_float (((const uint8_t *) of)[row * size + d]) * scales[row];
}

/* Probabilities of query row t (head h) of sequence s over keys 0..hi-1; returns the log of their sum. */
static double
probabilities (double *p, const void *q, const struct dev_kv *kv, const struct dev_attention *shape,
               const struct dev_batch *batch, int s, int t, int h, int lo, int hi, enum dev_type type)
{
  int size = shape->head_size, g = h / (shape->heads / shape->groups);
  double top = -INFINITY, sum = 0;
  for (int j = lo; j < hi; j++)
    {
      size_t key = key_row (batch, s, j) * shape->groups + g;
      p[j] = 0;
      for (int d = 0; d < size; d++)
        p[j] += get (q, ((size_t) t * shape->heads + h) * size + d, type)
                * cached (kv->k, kv->k_scales, key, d, size, type);
      p[j] *= shape->scale;
      if (shape->soft_cap > 0)
        p[j] = shape->soft_cap * tanh (p[j] / shape->soft_cap);
      top = p[j] > top ? p[j] : top;
    }
  for (int j = lo; j < hi; j++)
    sum += exp (p[j] - top);
  for (int j = lo; j < hi; j++)
    p[j] = exp (p[j] - top) / sum;
  return top + log (sum);
}

static void
attention_forward (struct dev_context *context, void *out, float *lse, const void *q,
                   const struct dev_kv *kv, const struct dev_attention *shape,
                   const struct dev_batch *batch, enum dev_type type)
{
  int size = shape->head_size, per_group = shape->heads / shape->groups;
  double *p = calloc ((size_t) batch->max_context + 1, sizeof *p);
  for (int s = 0; s < batch->sequences; s++)
    for (int t = batch->query_offsets[s]; t < batch->query_offsets[s + 1]; t++)
      for (int h = 0; h < shape->heads; h++)
        {
          int hi = batch->contexts[s] - (batch->query_offsets[s + 1] - t) + 1;
          int lo = shape->window && hi > shape->window ? hi - shape->window : 0;
          double total = probabilities (p, q, kv, shape, batch, s, t, h, lo, hi, type);
          for (int d = 0; d < size; d++)
            {
              double sum = 0;
              for (int j = lo; j < hi; j++)
                sum += p[j]
                       * cached (kv->v, kv->v_scales, key_row (batch, s, j) * shape->groups + h / per_group, d, size,
                                 type);
              set (out, ((size_t) t * shape->heads + h) * size + d, sum, type);
            }
          if (lse)
            lse[(size_t) t * shape->heads + h] = (float) total;
        }
  free (p);
}

static void
attention_backward (struct dev_context *context, void *dq, void *dk, void *dv, const void *dout,
                    const void *out, const float *lse, const void *q, const struct dev_kv *kv,
                    const struct dev_attention *shape, const struct dev_batch *batch, enum dev_type type)
{
  int size = shape->head_size, heads = shape->heads, groups = shape->groups;
  size_t kv_count = (size_t) batch->tokens * groups * size;
  double *p = calloc ((size_t) batch->max_context + 1, sizeof *p);
  double *sum_k = calloc (kv_count, sizeof *sum_k), *sum_v = calloc (kv_count, sizeof *sum_v);
  for (int s = 0; s < batch->sequences; s++)
    for (int t = batch->query_offsets[s]; t < batch->query_offsets[s + 1]; t++)
      for (int h = 0; h < heads; h++)
        {
          int hi = t - batch->query_offsets[s] + 1, g = h / (heads / groups);
          int lo = shape->window && hi > shape->window ? hi - shape->window : 0;
          size_t query = ((size_t) t * heads + h) * size;
          double delta = 0;
          double total = probabilities (p, q, kv, shape, batch, s, t, h, lo, hi, type);
          for (int d = 0; d < size; d++)
            {
              delta += get (dout, query + d, type) * get (out, query + d, type);
              set (dq, query + d, 0, type);
            }
          double dquery[256] = { 0 };
          for (int j = lo; j < hi; j++)
            {
              size_t key = (key_row (batch, s, j) * groups + g) * size;
              double dp = 0;
              for (int d = 0; d < size; d++)
                dp += get (dout, query + d, type) * get (kv->v, key + d, type);
              double capped = shape->soft_cap > 0 ? (log (p[j]) + total) / shape->soft_cap : 0;
              double ds = p[j] > 0 ? p[j] * (dp - delta) * shape->scale * (1 - capped * capped) : 0;
              for (int d = 0; d < size; d++)
                {
                  dquery[d] += ds * get (kv->k, key + d, type);
                  sum_k[key + d] += ds * get (q, query + d, type);
                  sum_v[key + d] += p[j] * get (dout, query + d, type);
                }
            }
          for (int d = 0; d < size; d++)
            set (dq, query + d, dquery[d], type);
        }
  for (size_t i = 0; i < kv_count; i++)
    {
      set (dk, i, sum_k[i], type);
      set (dv, i, sum_v[i], type);
    }
  free (p);
  free (sum_k);
  free (sum_v);
}

static void
swiglu_forward (struct dev_context *context, void *act, const void *gate_up, int t, int width,
                enum dev_type type)
{
  for (size_t i = 0; i < (size_t) t; i++)
    for (int c = 0; c < width; c++)
      {
        double gate = get (gate_up, 2 * i * width + c, type);
        double up = get (gate_up, (2 * i + 1) * width + c, type);
        set (act, i * width + c, gate / (1 + exp (-gate)) * up, type);
      }
}

static void
swiglu_backward (struct dev_context *context, void *dgate_up, const void *dact, const void *gate_up, int t,
                 int width, enum dev_type type)
{
  for (size_t i = 0; i < (size_t) t; i++)
    for (int c = 0; c < width; c++)
      {
        double gate = get (gate_up, 2 * i * width + c, type);
        double up = get (gate_up, (2 * i + 1) * width + c, type), d = get (dact, i * width + c, type);
        double sigmoid = 1 / (1 + exp (-gate));
        set (dgate_up, 2 * i * width + c, d * up * sigmoid * (1 + gate * (1 - sigmoid)), type);
        set (dgate_up, (2 * i + 1) * width + c, d * gate * sigmoid, type);
      }
}

/* Logits of row i over the temperature; returns the log of the sum of exponentials. */
static double
row_logits (double *z, const void *h, const struct dev_matrix *w, size_t i, double temperature,
            enum dev_type type)
{
  double top = -INFINITY, sum = 0;
  for (int v = 0; v < w->rows; v++)
    {
      z[v] = 0;
      for (int c = 0; c < w->cols; c++)
        z[v] += get (h, i * w->cols + c, type) * get (w->data, (size_t) v * w->cols + c, type);
      z[v] /= temperature;
      top = z[v] > top ? z[v] : top;
    }
  for (int v = 0; v < w->rows; v++)
    sum += exp (z[v] - top);
  return top + log (sum);
}

static void
head_forward (struct dev_context *context, float *logp, float *entropy, float *lse, const void *h,
              const struct dev_matrix *w, const int32_t *targets, float temperature, int n,
              enum dev_type type)
{
  double *z = calloc ((size_t) w->rows, sizeof *z);
  for (int i = 0; i < n; i++)
    {
      double total = row_logits (z, h, w, i, temperature, type), sum = 0;
      for (int v = 0; v < w->rows; v++)
        sum += exp (z[v] - total) * z[v];
      lse[i] = (float) total;
      logp[i] = (float) (z[targets[i]] - total);
      entropy[i] = (float) (total - sum);
    }
  free (z);
}

static void
head_backward (struct dev_context *context, void *dh, float *dw, bool add, const float *dlogp, const float *dentropy,
               const float *entropy, const float *lse, const void *h, const struct dev_matrix *w,
               const int32_t *targets, float temperature, int n, enum dev_type type)
{
  double *z = calloc ((size_t) w->rows, sizeof *z), *dx = calloc ((size_t) w->cols, sizeof *dx);
  if (dw && !add)
    memset (dw, 0, (size_t) w->rows * w->cols * sizeof *dw);
  for (int i = 0; i < n; i++)
    {
      double total = row_logits (z, h, w, i, temperature, type), sum = 0;
      for (int v = 0; v < w->rows; v++)
        sum += exp (z[v] - total) * z[v];
      memset (dx, 0, (size_t) w->cols * sizeof *dx);
      for (int v = 0; v < w->rows; v++)
        {
          double p = exp (z[v] - total), log_p = z[v] - total;
          double d = (dlogp[i] * ((v == targets[i]) - p) - dentropy[i] * p * (log_p + total - sum))
                     / temperature;
          for (int c = 0; c < w->cols; c++)
            {
              dx[c] += d * get (w->data, (size_t) v * w->cols + c, type);
              if (dw)
                dw[(size_t) v * w->cols + c] += (float) (d * get (h, (size_t) i * w->cols + c, type));
            }
        }
      for (int c = 0; c < w->cols; c++)
        set (dh, (size_t) i * w->cols + c, dx[c], type);
    }
  free (z);
  free (dx);
}

static void
head_logits (struct dev_context *context, float *logits, const void *h, const struct dev_matrix *w, int n,
             enum dev_type type)
{
  double *z = calloc ((size_t) w->rows, sizeof *z);
  for (int i = 0; i < n; i++)
    {
      row_logits (z, h, w, i, 1, type);
      for (int v = 0; v < w->rows; v++)
        logits[(size_t) i * w->rows + v] = (float) z[v];
    }
  free (z);
}

/* A logit and its place, to be sorted. */
struct entry
{
  double value;
  int index;
};

static int
by_value (const void *a, const void *b)
{
  const struct entry *p = a, *q = b;
  return p->value != q->value ? (p->value < q->value ? 1 : -1) : p->index - q->index;
}

/* Scales z (n) and leaves -INFINITY where nothing may be drawn, by sorting. */
static void
filter_row (double *z, int n, const struct dev_sampling *s, int row)
{
  const uint32_t *seen = s->seen ? s->seen + (size_t) s->seen_rows[row] * s->seen_stride : NULL;
  double temperature = s->temperature > 0 ? s->temperature : 1, whole = 0, mass = 0;
  for (int v = 0; v < n; v++)
    {
      if (seen && (seen[v / 32] >> v % 32 & 1))
        z[v] = z[v] < 0 ? z[v] * s->repetition_penalty : z[v] / s->repetition_penalty;
      z[v] /= temperature;
    }
  if (s->temperature == 0)
    return;
  for (int k = 0; k < s->n_forbidden && s->ban && s->ban[row]; k++)
    if (s->forbidden[k] < n)
      z[s->forbidden[k]] = -INFINITY;
  struct entry *sorted = malloc ((size_t) n * sizeof *sorted);
  for (int v = 0; v < n; v++)
    sorted[v] = (struct entry){ z[v], v };
  qsort (sorted, n, sizeof *sorted, by_value);
  int kept = s->top_k > 0 && s->top_k < n ? s->top_k : n;
  while (kept < n && sorted[kept].value == sorted[kept - 1].value)
    kept++;
  double top = sorted[0].value;
  for (int i = 0; i < kept; i++)
    whole += exp (sorted[i].value - top);
  for (int i = 0; i < n; i++)
    {
      double p = exp (sorted[i].value - top);
      if (i >= kept || (i > 0 && s->top_p > 0 && s->top_p < 1 && mass >= s->top_p * whole) || p < s->min_p)
        z[sorted[i].index] = -INFINITY;
      mass += p;
    }
  free (sorted);
}

/* The log of the sum of exponentials. */
static double
log_sum (const double *z, int n)
{
  double top = -INFINITY, sum = 0;
  for (int v = 0; v < n; v++)
    top = z[v] > top ? z[v] : top;
  for (int v = 0; v < n; v++)
    sum += exp (z[v] - top);
  return top + log (sum);
}

static void
head_sample (struct dev_context *context, int32_t *tokens, float *logp, const void *h, const struct dev_matrix *w,
             const struct dev_sampling *s, int n, enum dev_type type)
{
  double *z = calloc ((size_t) w->rows, sizeof *z);
  bool filtered = dev_sampling_is_filtered (s);
  for (int i = 0; i < n; i++)
    {
      double top = -INFINITY, total = row_logits (z, h, w, i, !filtered && s->temperature > 0 ? s->temperature : 1, type);
      if (filtered)
        {
          filter_row (z, w->rows, s, i);
          total = log_sum (z, w->rows);
        }
      for (int v = 0; v < w->rows; v++)
        {
          double value = z[v];
          if (s->temperature > 0)
            {
              uint32_t counter[4] = { s->random[i].counter[0], s->random[i].counter[1], s->random[i].counter[2],
                                      (uint32_t) v / 4 };
              uint32_t words[4];
              philox_4x32_10 (words, counter, s->seed);
              value -= log (-log ((double) philox_uniform (words[v % 4])));
            }
          bool banned = false;
          for (int k = 0; k < s->n_forbidden && s->ban && s->ban[i]; k++)
            banned = banned || s->forbidden[k] == v;
          if (value > top && !banned)
            {
              top = value;
              tokens[i] = v;
              logp[i] = (float) (z[v] - total);
            }
        }
      if (s->seen)
        s->seen[(size_t) s->seen_rows[i] * s->seen_stride + tokens[i] / 32] |= 1u << tokens[i] % 32;
    }
  free (z);
}

static void
norm_qkv_forward (struct dev_context *context, const struct dev_norm *norm, void *raw, void *q, const struct dev_kv *kv,
                  const struct dev_matrix *w, const struct dev_qkv *qkv, const struct dev_attention *shape,
                  const struct dev_batch *batch, enum dev_type type)
{
  add_norm_forward (context, norm->sum, norm->out, norm->rstd, norm->x, norm->delta, norm->weight, norm->eps,
                    batch->tokens, w->cols, type);
  linear_forward (context, raw, norm->out, w, batch->tokens, type);
  qkv_forward (context, q, kv, raw, qkv, shape, batch, type);
}

static void
norm_swiglu_forward (struct dev_context *context, const struct dev_norm *norm, void *act, void *gate_up,
                     const struct dev_matrix *w, int t, enum dev_type type)
{
  add_norm_forward (context, norm->sum, norm->out, norm->rstd, norm->x, norm->delta, norm->weight, norm->eps, t,
                    w->cols, type);
  linear_forward (context, gate_up, norm->out, w, t, type);
  swiglu_forward (context, act, gate_up, t, w->rows / 2, type);
}

static void
value_forward (struct dev_context *context, float *values, const void *h, const void *weight, int n,
               int width, enum dev_type type)
{
  for (int i = 0; i < n; i++)
    {
      double sum = 0;
      for (int c = 0; c < width; c++)
        sum += get (h, (size_t) i * width + c, type) * get (weight, c, type);
      values[i] = (float) sum;
    }
}

static void
value_backward (struct dev_context *context, void *dh, float *dweight, const float *dvalues, const void *h,
                const void *weight, int n, int width, enum dev_type type)
{
  for (int i = 0; i < n; i++)
    for (int c = 0; c < width; c++)
      {
        size_t at = (size_t) i * width + c;
        dweight[c] += (float) (dvalues[i] * get (h, at, type));
        set (dh, at, dvalues[i] * get (weight, c, type), type);
      }
}

static void
adamw (struct dev_context *context, void *param, float *master, const float *grad, float *m, float *v,
       size_t n, const struct dev_adamw *a, enum dev_type type)
{
  float *values = master ? master : param;
  for (size_t i = 0; i < n; i++)
    {
      double g = (double) grad[i] * a->gradient_scale;
      m[i] = (float) (a->beta1 * m[i] + (1 - (double) a->beta1) * g);
      v[i] = (float) (a->beta2 * v[i] + (1 - (double) a->beta2) * g * g);
      double step = (m[i] / a->correction1) / (sqrt (v[i] / a->correction2) + a->epsilon);
      double kept = values[i] * (1 - (double) a->learning_rate * a->weight_decay);
      values[i] = (float) (kept - a->learning_rate * step);
      if (master)
        set (param, i, values[i], type);
    }
}

static void
square_sum (struct dev_context *context, double *out, const float *x, size_t n)
{
  *out = 0;
  for (size_t i = 0; i < n; i++)
    *out += (double) x[i] * x[i];
}

const struct dev_ops *
dev_reference (void)
{
  static struct dev_ops ops;
  if (ops.layout)
    return &ops;
  struct dev_ops own = *dev_cpu ();
  own.name = "reference";
  own.encode = encode;
  own.linear_forward = linear_forward;
  own.linear_backward = linear_backward;
  own.embed_forward = embed_forward;
  own.embed_backward = embed_backward;
  own.add_norm_forward = add_norm_forward;
  own.add_norm_backward = add_norm_backward;
  own.qkv_forward = qkv_forward;
  own.qkv_backward = qkv_backward;
  own.attention_forward = attention_forward;
  own.attention_backward = attention_backward;
  own.swiglu_forward = swiglu_forward;
  own.swiglu_backward = swiglu_backward;
  own.norm_qkv_forward = norm_qkv_forward;
  own.norm_swiglu_forward = norm_swiglu_forward;
  own.head_forward = head_forward;
  own.head_backward = head_backward;
  own.head_logits = head_logits;
  own.head_sample = head_sample;
  own.value_forward = value_forward;
  own.value_backward = value_backward;
  own.adamw = adamw;
  own.square_sum = square_sum;
  ops = own;
  return &ops;
}
