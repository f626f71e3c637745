#pragma once
#include "kernels/portable/source/row_sums.h"
#include "kernels/portable/source/tile_product.h"

// Causal attention by tiles (Dao et al. 2022): scores exist a tile at a time. A row of qkv is `heads`
// queries, then `key_value_heads` keys, then as many values, `head_size` each. COLUMN_TILES is how many tiles
// wide a head is, a constant in each of a kernel's three instances, so that results stay in registers.
#define MAX_COLUMN_TILES 4

typedef struct {
  LONG sequence, heads, key_value_heads, head_size;
  float scale;
} Heads;

INLINE Heads MakeHeads(LONG sequence, LONG heads, LONG key_value_heads, LONG head_size, float scale) {
  Heads shape;
  shape.sequence = sequence;
  shape.heads = heads;
  shape.key_value_heads = key_value_heads;
  shape.head_size = head_size;
  shape.scale = scale;
  return shape;
}

INLINE LONG RowElements(const Heads shape) {
  return (shape.heads + 2 * shape.key_value_heads) * shape.head_size;
}

// Head `head` (of a row of `row_elements`) from position `first` of sequence `batch` on: as rows over the
// head's elements, and, column tile `tile` of it, as rows of elements over positions.
INLINE const GLOBAL float* HeadAt(const GLOBAL float* data, const Heads shape, LONG row_elements, LONG head,
                                  LONG first) {
  return data + (GROUP_ID_2 * shape.sequence + first) * row_elements + head * shape.head_size;
}
INLINE Operand Positions(const GLOBAL float* data, const Heads shape, LONG row_elements, LONG head,
                         LONG first) {
  return MakeOperand(HeadAt(data, shape, row_elements, head, first), row_elements, 1, shape.sequence - first);
}
INLINE Operand Elements(const GLOBAL float* data, const Heads shape, LONG row_elements, LONG head, LONG first,
                        int tile) {
  return MakeOperand(HeadAt(data, shape, row_elements, head, first) + tile * TILE, 1, row_elements,
                     shape.head_size - tile * TILE);
}

INLINE void Clear(float* values, const int count) {
  UNROLL
  for (int i = 0; i < count; ++i) values[i] = 0;
}

// Writes the group's result, column_tiles tiles wide, to rows from position `first` on.
INLINE void StoreHead(GLOBAL float* data, const Heads shape, LONG row_elements, LONG head, LONG first,
                      const float* result, const int column_tiles) {
  GLOBAL float* to = data + (GROUP_ID_2 * shape.sequence + first) * row_elements + head * shape.head_size;
  UNROLL
  for (int tile = 0; tile < column_tiles; ++tile) {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const int row = TILE_ROW + i, column = tile * TILE + TILE_COLUMN + j;
        if (first + row < shape.sequence && column < shape.head_size) {
          to[row * row_elements + column] = result[tile * 16 + i * 4 + j];
        }
      }
    }
  }
}

// Groups (ceil(sequence / TILE), heads, batch). The last queries have the most keys and start first.
INLINE void AttentionForward(const GLOBAL float* qkv, GLOBAL float* out, GLOBAL float* log_sum_exp,
                             const Heads shape, LOCAL float* probabilities, LOCAL float* a_chunk,
                             LOCAL float* b_chunk, LOCAL float* partial, const int column_tiles) {
  const LONG head = GROUP_ID_1, first_query = (GROUPS_0 - 1 - GROUP_ID_0) * TILE;
  const LONG key_head = shape.heads + head / (shape.heads / shape.key_value_heads);
  const LONG value_head = key_head + shape.key_value_heads, row_elements = RowElements(shape);
  const int lane = LOCAL_ID % 16;
  float result[MAX_COLUMN_TILES * 16], largest[4], sums[4];
  Clear(result, column_tiles * 16);
  Clear(sums, 4);
  for (int i = 0; i < 4; ++i) largest[i] = NEGATIVE_INFINITY;

  for (LONG first_key = 0; first_key <= first_query; first_key += TILE) {
    float scores[16];
    Clear(scores, 16);
    MultiplyTiles(scores, Positions(qkv, shape, row_elements, head, first_query),
                  Positions(qkv, shape, row_elements, key_head, first_key), shape.head_size, a_chunk,
                  b_chunk);
    for (int i = 0; i < 4; ++i) {
      float row_largest = NEGATIVE_INFINITY;
      for (int j = 0; j < 4; ++j) {
        const int visible = first_key + TILE_COLUMN + j <= first_query + TILE_ROW + i;
        scores[i * 4 + j] = visible ? scores[i * 4 + j] * shape.scale : NEGATIVE_INFINITY;
        row_largest = MAX(row_largest, scores[i * 4 + j]);
      }
      partial[(TILE_ROW + i) * 17 + lane] = row_largest;
    }
    BARRIER();
    for (int i = 0; i < 4; ++i) {
      float new_largest = largest[i];
      for (int k = 0; k < 16; ++k) new_largest = MAX(new_largest, partial[(TILE_ROW + i) * 17 + k]);
      const float shrink = EXP(largest[i] - new_largest);
      largest[i] = new_largest;
      sums[i] *= shrink;
      for (int j = 0; j < 4; ++j) {
        scores[i * 4 + j] = EXP(scores[i * 4 + j] - new_largest);
        sums[i] += scores[i * 4 + j];
      }
      UNROLL
      for (int tile = 0; tile < column_tiles; ++tile) {
        for (int j = 0; j < 4; ++j) result[tile * 16 + i * 4 + j] *= shrink;
      }
    }
    StoreTile(probabilities, scores);
    BARRIER();
    UNROLL
    for (int tile = 0; tile < column_tiles; ++tile) {
      MultiplyStoredTile(result + tile * 16, probabilities,
                         Elements(qkv, shape, row_elements, value_head, first_key, tile),
                         shape.sequence - first_key, b_chunk);
    }
  }

  for (int i = 0; i < 4; ++i) partial[(TILE_ROW + i) * 17 + lane] = sums[i];
  BARRIER();
  for (int i = 0; i < 4; ++i) {
    float sum = 0;
    for (int k = 0; k < 16; ++k) sum += partial[(TILE_ROW + i) * 17 + k];
    UNROLL
    for (int tile = 0; tile < column_tiles; ++tile) {
      for (int j = 0; j < 4; ++j) result[tile * 16 + i * 4 + j] /= sum;
    }
    const LONG query = first_query + TILE_ROW + i;
    if (lane == 0 && query < shape.sequence) {
      log_sum_exp[(GROUP_ID_2 * shape.heads + head) * shape.sequence + query] = largest[i] + LOG(sum);
    }
  }
  StoreHead(out, shape, shape.heads * shape.head_size, head, first_query, result, column_tiles);
}

// delta[b,h,s] = the sum of dout * out over a head's row. Rows are [b,s,h]; groups ceil(rows /
// ROWS_PER_GROUP).
KERNEL attention_delta(SLICE(const float, out), SLICE(const float, dout), SLICE(float, delta), LONG rows,
                       LONG sequence, LONG heads, LONG head_size) {
  OPEN(const float, out)
  OPEN(const float, dout)
  OPEN(float, delta)
  SHARED float partial[GROUP_SIZE];
  const LONG row = ROW_OF_GROUP, end = row < rows ? head_size : 0;
  float value = 0;
  for (LONG d = ROW_LANE; d < end; d += ROW_LANES)
    value += out[row * head_size + d] * dout[row * head_size + d];
  const float sum = SumOverLanes(partial, value);
  if (row < rows && ROW_LANE == 0) {
    const LONG head = row % heads, position = row / heads;
    delta[(position / sequence * heads + head) * sequence + position % sequence] = sum;
  }
}

// Groups as forward: dqkv's query part.
INLINE void AttentionQueryGradient(const GLOBAL float* qkv, const GLOBAL float* dout,
                                   const GLOBAL float* log_sum_exp, const GLOBAL float* delta,
                                   GLOBAL float* dqkv, const Heads shape, LOCAL float* d_scores,
                                   LOCAL float* a_chunk, LOCAL float* b_chunk, const int column_tiles) {
  const LONG head = GROUP_ID_1, first_query = (GROUPS_0 - 1 - GROUP_ID_0) * TILE;
  const LONG key_head = shape.heads + head / (shape.heads / shape.key_value_heads);
  const LONG value_head = key_head + shape.key_value_heads, row_elements = RowElements(shape);
  const LONG out_elements = shape.heads * shape.head_size;
  float result[MAX_COLUMN_TILES * 16], row_log_sum_exp[4], row_delta[4];
  Clear(result, column_tiles * 16);
  for (int i = 0; i < 4; ++i) {
    const LONG query = first_query + TILE_ROW + i;
    const LONG at = (GROUP_ID_2 * shape.heads + head) * shape.sequence + query;
    row_log_sum_exp[i] = query < shape.sequence ? log_sum_exp[at] : 0;
    row_delta[i] = query < shape.sequence ? delta[at] : 0;
  }
  for (LONG first_key = 0; first_key <= first_query; first_key += TILE) {
    float scores[16], d_probabilities[16];
    Clear(scores, 16);
    Clear(d_probabilities, 16);
    MultiplyTiles(scores, Positions(qkv, shape, row_elements, head, first_query),
                  Positions(qkv, shape, row_elements, key_head, first_key), shape.head_size, a_chunk,
                  b_chunk);
    MultiplyTiles(d_probabilities, Positions(dout, shape, out_elements, head, first_query),
                  Positions(qkv, shape, row_elements, value_head, first_key), shape.head_size, a_chunk,
                  b_chunk);
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const int visible = first_key + TILE_COLUMN + j <= first_query + TILE_ROW + i;
        const float probability = visible ? EXP(scores[i * 4 + j] * shape.scale - row_log_sum_exp[i]) : 0.0f;
        scores[i * 4 + j] = probability * (d_probabilities[i * 4 + j] - row_delta[i]) * shape.scale;
      }
    }
    StoreTile(d_scores, scores);
    BARRIER();
    UNROLL
    for (int tile = 0; tile < column_tiles; ++tile) {
      MultiplyStoredTile(result + tile * 16, d_scores,
                         Elements(qkv, shape, row_elements, key_head, first_key, tile),
                         shape.sequence - first_key, b_chunk);
    }
  }
  StoreHead(dqkv, shape, row_elements, head, first_query, result, column_tiles);
}

// Groups (ceil(sequence / TILE), key_value_heads, batch): dqkv's key and value parts, the sum over the query
// heads of the group in order. Tiles are turned: rows are keys, columns queries.
INLINE void AttentionKeyValueGradient(const GLOBAL float* qkv, const GLOBAL float* dout,
                                      const GLOBAL float* log_sum_exp, const GLOBAL float* delta,
                                      GLOBAL float* dqkv, const Heads shape, LOCAL float* stored,
                                      LOCAL float* a_chunk, LOCAL float* b_chunk, const int column_tiles) {
  const LONG first_key = GROUP_ID_0 * TILE, group_heads = shape.heads / shape.key_value_heads;
  const LONG key_head = shape.heads + GROUP_ID_1, value_head = key_head + shape.key_value_heads;
  const LONG row_elements = RowElements(shape), out_elements = shape.heads * shape.head_size;
  float d_key[MAX_COLUMN_TILES * 16], d_value[MAX_COLUMN_TILES * 16];
  Clear(d_key, column_tiles * 16);
  Clear(d_value, column_tiles * 16);
  for (LONG head = GROUP_ID_1 * group_heads; head < (GROUP_ID_1 + 1) * group_heads; ++head) {
    for (LONG first_query = first_key; first_query < shape.sequence; first_query += TILE) {
      float probabilities[16], d_scores[16];
      Clear(probabilities, 16);
      Clear(d_scores, 16);
      MultiplyTiles(probabilities, Positions(qkv, shape, row_elements, key_head, first_key),
                    Positions(qkv, shape, row_elements, head, first_query), shape.head_size, a_chunk,
                    b_chunk);
      MultiplyTiles(d_scores, Positions(qkv, shape, row_elements, value_head, first_key),
                    Positions(dout, shape, out_elements, head, first_query), shape.head_size, a_chunk,
                    b_chunk);
      for (int j = 0; j < 4; ++j) {
        const LONG query = first_query + TILE_COLUMN + j;
        const LONG at = (GROUP_ID_2 * shape.heads + head) * shape.sequence + query;
        const float column_log_sum_exp = query < shape.sequence ? log_sum_exp[at] : 0;
        const float column_delta = query < shape.sequence ? delta[at] : 0;
        for (int i = 0; i < 4; ++i) {
          const int visible = query < shape.sequence && first_key + TILE_ROW + i <= query;
          const float score = probabilities[i * 4 + j] * shape.scale;
          const float probability = visible ? EXP(score - column_log_sum_exp) : 0.0f;
          probabilities[i * 4 + j] = probability;
          d_scores[i * 4 + j] = probability * (d_scores[i * 4 + j] - column_delta) * shape.scale;
        }
      }
      StoreTile(stored, probabilities);
      BARRIER();
      UNROLL
      for (int tile = 0; tile < column_tiles; ++tile) {
        MultiplyStoredTile(d_value + tile * 16, stored,
                           Elements(dout, shape, out_elements, head, first_query, tile),
                           shape.sequence - first_query, b_chunk);
      }
      StoreTile(stored, d_scores);
      BARRIER();
      UNROLL
      for (int tile = 0; tile < column_tiles; ++tile) {
        MultiplyStoredTile(d_key + tile * 16, stored,
                           Elements(qkv, shape, row_elements, head, first_query, tile),
                           shape.sequence - first_query, b_chunk);
      }
    }
  }
  StoreHead(dqkv, shape, row_elements, key_head, first_key, d_key, column_tiles);
  StoreHead(dqkv, shape, row_elements, value_head, first_key, d_value, column_tiles);
}

#define ATTENTION_KERNELS(width, column_tiles)                                                              \
  KERNEL attention_forward_##width(SLICE(const float, qkv), SLICE(float, out), SLICE(float, log_sum_exp),   \
                                   LONG sequence, LONG heads, LONG key_value_heads, LONG head_size,         \
                                   float scale) {                                                           \
    OPEN(const float, qkv)                                                                                  \
    OPEN(float, out)                                                                                        \
    OPEN(float, log_sum_exp)                                                                                \
    SHARED float tile[TILE_FLOATS];                                                                         \
    SHARED float a_chunk[CHUNK_FLOATS];                                                                     \
    SHARED float b_chunk[CHUNK_FLOATS];                                                                     \
    SHARED float partial[TILE * 17];                                                                        \
    AttentionForward(qkv, out, log_sum_exp, MakeHeads(sequence, heads, key_value_heads, head_size, scale),  \
                     tile, a_chunk, b_chunk, partial, column_tiles);                                        \
  }                                                                                                         \
  KERNEL attention_query_gradient_##width(SLICE(const float, qkv), SLICE(const float, dout),                \
                                          SLICE(const float, log_sum_exp), SLICE(const float, delta),       \
                                          SLICE(float, dqkv), LONG sequence, LONG heads,                    \
                                          LONG key_value_heads, LONG head_size, float scale) {              \
    OPEN(const float, qkv)                                                                                  \
    OPEN(const float, dout)                                                                                 \
    OPEN(const float, log_sum_exp)                                                                          \
    OPEN(const float, delta)                                                                                \
    OPEN(float, dqkv)                                                                                       \
    SHARED float tile[TILE_FLOATS];                                                                         \
    SHARED float a_chunk[CHUNK_FLOATS];                                                                     \
    SHARED float b_chunk[CHUNK_FLOATS];                                                                     \
    AttentionQueryGradient(qkv, dout, log_sum_exp, delta, dqkv,                                             \
                           MakeHeads(sequence, heads, key_value_heads, head_size, scale), tile, a_chunk,    \
                           b_chunk, column_tiles);                                                          \
  }                                                                                                         \
  KERNEL attention_key_value_gradient_##width(SLICE(const float, qkv), SLICE(const float, dout),            \
                                              SLICE(const float, log_sum_exp), SLICE(const float, delta),   \
                                              SLICE(float, dqkv), LONG sequence, LONG heads,                \
                                              LONG key_value_heads, LONG head_size, float scale) {          \
    OPEN(const float, qkv)                                                                                  \
    OPEN(const float, dout)                                                                                 \
    OPEN(const float, log_sum_exp)                                                                          \
    OPEN(const float, delta)                                                                                \
    OPEN(float, dqkv)                                                                                       \
    SHARED float tile[TILE_FLOATS];                                                                         \
    SHARED float a_chunk[CHUNK_FLOATS];                                                                     \
    SHARED float b_chunk[CHUNK_FLOATS];                                                                     \
    AttentionKeyValueGradient(qkv, dout, log_sum_exp, delta, dqkv,                                          \
                              MakeHeads(sequence, heads, key_value_heads, head_size, scale), tile, a_chunk, \
                              b_chunk, column_tiles);                                                       \
  }

ATTENTION_KERNELS(64, 1)
ATTENTION_KERNELS(128, 2)
ATTENTION_KERNELS(256, 4)
