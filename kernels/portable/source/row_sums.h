#pragma once
#include "kernels/portable/source/kernel_language.h"

// Sums along rows: a group takes ROWS_PER_GROUP rows, ROW_LANES work-items each.
#define ROW_LANES 32
#define ROWS_PER_GROUP (GROUP_SIZE / ROW_LANES)
#define ROW_OF_GROUP (GROUP_ID_0 * ROWS_PER_GROUP + LOCAL_ID / ROW_LANES)
#define ROW_LANE (LOCAL_ID % ROW_LANES)

// Columns of the work-item's row in turns, of each a run of neighbours.
#define EACH_TURN(turn, columns) for (LONG turn = 0; turn < (columns); turn += RUN_ELEMENTS * ROW_LANES)
#define COLUMN_OF_TURN(turn) ((turn) + RUN_ELEMENTS * ROW_LANE)

// The sum of `value` over the lanes of the caller's row, for each of them: of halves of them, and of these. The whole
// group calls it.
INLINE float SumOverLanes(LOCAL float* partial, float value) {
#ifdef __CUDACC__
  for (int span = ROW_LANES / 2; span > 0; span /= 2) value += __shfl_xor_sync(0xffffffffu, value, span);
  return value;
#else
  partial[LOCAL_ID] = value;
  BARRIER();
  for (int span = ROW_LANES / 2; span > 0; span /= 2) {
    if (ROW_LANE < span) partial[LOCAL_ID] += partial[LOCAL_ID + span];
    BARRIER();
  }
  const float sum = partial[LOCAL_ID - ROW_LANE];
  BARRIER();
  return sum;
#endif
}

// Sums along columns, in two kernels: groups (ceil(columns / COLUMNS_PER_GROUP), chunks) leave partial[chunk,
// column], each from `chunk_rows` rows; then add_column_sums. The sum order depends on the shape alone.
#define COLUMNS_PER_GROUP (RUN_ELEMENTS * ROW_LANES)
#define COLUMN_OF_GROUP (GROUP_ID_0 * COLUMNS_PER_GROUP + RUN_ELEMENTS * ROW_LANE)
#define FIRST_ROW_OF_CHUNK (GROUP_ID_1 * chunk_rows + LOCAL_ID / ROW_LANES)
#define END_ROW_OF_CHUNK ((GROUP_ID_1 + 1) * chunk_rows < rows ? (GROUP_ID_1 + 1) * chunk_rows : rows)

// What `partial` has of a column of each row of the group, in the order of the rows: of `width` columns a row.
INLINE float SumOfStrips(LOCAL const float* partial, int width) {
  float sum = 0;
  for (int strip = 0; strip < ROWS_PER_GROUP; ++strip) sum += partial[strip * width + LOCAL_ID];
  return sum;
}

// Floats of shared memory that a group needs for them.
#define COLUMN_SUMS_PARTIAL (RUN_ELEMENTS * GROUP_SIZE)
// Writes what the group's work-items summed up of their columns, in the order of their rows.
INLINE void StoreColumnSums(LOCAL float* partial, const float* values, GLOBAL float* sums, LONG columns) {
  EACH_OF_RUN(k) partial[LOCAL_ID * RUN_ELEMENTS + k] = values[k];
  BARRIER();
  const LONG column = GROUP_ID_0 * COLUMNS_PER_GROUP + LOCAL_ID;
  if (LOCAL_ID < COLUMNS_PER_GROUP && column < columns)
    sums[GROUP_ID_1 * columns + column] = SumOfStrips(partial, COLUMNS_PER_GROUP);
  BARRIER();
}

// out[column] += sums[0, column] + sums[1, column] + ...: a lane takes a column, and every ROWS_PER_GROUP-th chunk.
// Groups ceil(columns / ROW_LANES).
KERNEL add_column_sums(SLICE(const float, sums), SLICE(float, out), LONG chunks, LONG columns) {
  OPEN(const float, sums)
  OPEN(float, out)
  SHARED float partial[GROUP_SIZE];
  const LONG column = GROUP_ID_0 * ROW_LANES + ROW_LANE;
  float sum = 0;
  if (column < columns) {
    UNROLL_8
    for (LONG chunk = LOCAL_ID / ROW_LANES; chunk < chunks; chunk += ROWS_PER_GROUP)
      sum += sums[chunk * columns + column];
  }
  partial[LOCAL_ID] = sum;
  BARRIER();
  if (LOCAL_ID < ROW_LANES && column < columns) out[column] += SumOfStrips(partial, ROW_LANES);
}
