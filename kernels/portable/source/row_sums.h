#pragma once
#include "kernels/portable/source/kernel_language.h"

// Sums along rows: a group takes ROWS_PER_GROUP rows, ROW_LANES work-items each.
#define ROW_LANES 32
#define ROWS_PER_GROUP (GROUP_SIZE / ROW_LANES)
#define ROW_OF_GROUP (GROUP_ID_0 * ROWS_PER_GROUP + LOCAL_ID / ROW_LANES)
#define ROW_LANE (LOCAL_ID % ROW_LANES)

// Columns of the work-item's row in turns of LANE_COLUMNS, as EACH_OF_ITEM.
#define LANE_COLUMNS 4
#define EACH_TURN(turn, columns) for (LONG turn = 0; turn < (columns); turn += LANE_COLUMNS * ROW_LANES)
#define EACH_OF_LANE(k, c, turn, columns) \
  UNROLL                                  \
  for (int k = 0; k < LANE_COLUMNS; ++k)  \
    for (LONG c = (turn) + k * ROW_LANES + ROW_LANE, once_##c = 1; once_##c && c < (columns); once_##c = 0)

// The sum of `value` over the lanes of the caller's row, in lane order, for each of them. The whole group
// calls it.
INLINE float SumOverLanes(LOCAL float* partial, float value) {
  partial[LOCAL_ID] = value;
  BARRIER();
  const int first = LOCAL_ID - ROW_LANE;
  float sum = 0;
  for (int lane = 0; lane < ROW_LANES; ++lane) sum += partial[first + lane];
  BARRIER();
  return sum;
}

// Sums along columns, in two kernels: groups (ceil(columns / ROW_LANES), chunks) leave partial[chunk,
// column], each from `chunk_rows` rows; then add_column_sums. The sum order depends on the shape alone.
#define COLUMN_OF_GROUP (GROUP_ID_0 * ROW_LANES + ROW_LANE)
#define FIRST_ROW_OF_CHUNK (GROUP_ID_1 * chunk_rows + LOCAL_ID / ROW_LANES)
#define END_ROW_OF_CHUNK ((GROUP_ID_1 + 1) * chunk_rows < rows ? (GROUP_ID_1 + 1) * chunk_rows : rows)

// Writes what the group's work-items summed up of column `column`, in the order of their rows.
INLINE void StoreColumnSum(LOCAL float* partial, float value, GLOBAL float* sums, LONG column, LONG columns) {
  partial[LOCAL_ID] = value;
  BARRIER();
  if (LOCAL_ID < ROW_LANES && column < columns) {
    float sum = 0;
    for (int strip = 0; strip < ROWS_PER_GROUP; ++strip) sum += partial[strip * ROW_LANES + LOCAL_ID];
    sums[GROUP_ID_1 * columns + column] = sum;
  }
  BARRIER();
}

// out[column] += sums[0, column] + sums[1, column] + ...; groups ceil(columns / GROUP_SIZE).
KERNEL add_column_sums(SLICE(const float, sums), SLICE(float, out), LONG chunks, LONG columns) {
  OPEN(const float, sums)
  OPEN(float, out)
  const LONG column = GROUP_ID_0 * GROUP_SIZE + LOCAL_ID;
  if (column >= columns) return;
  float sum = 0;
  UNROLL_8
  for (LONG chunk = 0; chunk < chunks; ++chunk) sum += sums[chunk * columns + column];
  out[column] += sum;
}
