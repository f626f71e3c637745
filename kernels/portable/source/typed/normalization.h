#include "kernels/portable/source/row_sums.h"
#include "kernels/portable/source/typed/element_type.h"

KERNEL TYPED(column_sums)(SLICE(const STORED, x), SLICE(float, sums), LONG rows, LONG columns,
                          LONG chunk_rows) {
  OPEN(const STORED, x)
  OPEN(float, sums)
  SHARED float partial[GROUP_SIZE];
  const LONG column = COLUMN_OF_GROUP, end = END_ROW_OF_CHUNK;
  float sum = 0;
  if (column < columns) {
    UNROLL_8
    for (LONG row = FIRST_ROW_OF_CHUNK; row < end; row += ROWS_PER_GROUP)
      sum += GET(x, row * columns + column);
  }
  StoreColumnSum(partial, sum, sums, column, columns);
}

// Forward and dx: groups ceil(rows / ROWS_PER_GROUP). Rows past the last take part in barriers and write
// nothing.

KERNEL TYPED(layer_norm_forward)(SLICE(const STORED, x), SLICE(const float, gamma), SLICE(const float, beta),
                                 SLICE(STORED, y), SLICE(float, mean), SLICE(float, rstd), LONG rows,
                                 LONG columns, float epsilon) {
  OPEN(const STORED, x)
  OPEN(const float, gamma)
  OPEN(const float, beta)
  OPEN(STORED, y)
  OPEN(float, mean)
  OPEN(float, rstd)
  SHARED float partial[GROUP_SIZE];
  const LONG row = ROW_OF_GROUP, first = row * columns, end = row < rows ? columns : 0;
  float sum = 0, squares = 0;
  for (LONG c = ROW_LANE; c < end; c += ROW_LANES) sum += GET(x, first + c);
  const float row_mean = SumOverLanes(partial, sum) / (float)columns;
  for (LONG c = ROW_LANE; c < end; c += ROW_LANES) {
    const float deviation = GET(x, first + c) - row_mean;
    squares += deviation * deviation;
  }
  const float row_rstd = 1.0f / SQRT(SumOverLanes(partial, squares) / (float)columns + epsilon);
  EACH_TURN(turn, end) {
    float values[LANE_COLUMNS];
    EACH_OF_LANE(k, c, turn, end) values[k] = (GET(x, first + c) - row_mean) * row_rstd * gamma[c] + beta[c];
    EACH_OF_LANE(k, c, turn, end) PUT(y, first + c, values[k]);
  }
  if (row < rows && ROW_LANE == 0) {
    mean[row] = row_mean;
    rstd[row] = row_rstd;
  }
}

// dx may be dy unless it is added to.
KERNEL TYPED(layer_norm_dx)(SLICE(const STORED, dy), SLICE(const STORED, x), SLICE(const float, gamma),
                            SLICE(const float, mean), SLICE(const float, rstd), SLICE(STORED, dx), LONG rows,
                            LONG columns, int adds) {
  OPEN(const STORED, dy)
  OPEN(const STORED, x)
  OPEN(const float, gamma)
  OPEN(const float, mean)
  OPEN(const float, rstd)
  OPEN(STORED, dx)
  SHARED float partial[GROUP_SIZE];
  const LONG row = ROW_OF_GROUP, first = row * columns, end = row < rows ? columns : 0;
  const float row_mean = row < rows ? mean[row] : 0, row_rstd = row < rows ? rstd[row] : 0;
  float sum = 0, projection = 0;
  for (LONG c = ROW_LANE; c < end; c += ROW_LANES) {
    const float gradient = GET(dy, first + c) * gamma[c];
    sum += gradient;
    projection += gradient * ((GET(x, first + c) - row_mean) * row_rstd);
  }
  const float mean_sum = SumOverLanes(partial, sum) / (float)columns;
  const float mean_projection = SumOverLanes(partial, projection) / (float)columns;
  EACH_TURN(turn, end) {
    float gradients[LANE_COLUMNS];
    EACH_OF_LANE(k, c, turn, end) {
      const float normalized = (GET(x, first + c) - row_mean) * row_rstd;
      const float before = adds ? GET(dx, first + c) : 0.0f;
      gradients[k] =
          before + row_rstd * (GET(dy, first + c) * gamma[c] - mean_sum - normalized * mean_projection);
    }
    EACH_OF_LANE(k, c, turn, end) PUT(dx, first + c, gradients[k]);
  }
}

// Partial sums for dgamma and dbeta, as column_sums leaves them.
KERNEL TYPED(layer_norm_column_sums)(SLICE(const STORED, dy), SLICE(const STORED, x),
                                     SLICE(const float, mean), SLICE(const float, rstd),
                                     SLICE(float, gamma_sums), SLICE(float, beta_sums), LONG rows,
                                     LONG columns, LONG chunk_rows) {
  OPEN(const STORED, dy)
  OPEN(const STORED, x)
  OPEN(const float, mean)
  OPEN(const float, rstd)
  OPEN(float, gamma_sums)
  OPEN(float, beta_sums)
  SHARED float partial[GROUP_SIZE];
  const LONG column = COLUMN_OF_GROUP, end = END_ROW_OF_CHUNK;
  float gamma_sum = 0, beta_sum = 0;
  if (column < columns) {
    UNROLL_8
    for (LONG row = FIRST_ROW_OF_CHUNK; row < end; row += ROWS_PER_GROUP) {
      const LONG at = row * columns + column;
      gamma_sum += GET(dy, at) * ((GET(x, at) - mean[row]) * rstd[row]);
      beta_sum += GET(dy, at);
    }
  }
  StoreColumnSum(partial, gamma_sum, gamma_sums, column, columns);
  StoreColumnSum(partial, beta_sum, beta_sums, column, columns);
}

KERNEL TYPED(rms_norm_forward)(SLICE(const STORED, x), SLICE(const float, gamma), SLICE(STORED, y),
                               SLICE(float, rstd), LONG rows, LONG columns, float epsilon) {
  OPEN(const STORED, x)
  OPEN(const float, gamma)
  OPEN(STORED, y)
  OPEN(float, rstd)
  SHARED float partial[GROUP_SIZE];
  const LONG row = ROW_OF_GROUP, first = row * columns, end = row < rows ? columns : 0;
  float squares = 0;
  for (LONG c = ROW_LANE; c < end; c += ROW_LANES) squares += GET(x, first + c) * GET(x, first + c);
  const float row_rstd = 1.0f / SQRT(SumOverLanes(partial, squares) / (float)columns + epsilon);
  EACH_TURN(turn, end) {
    float values[LANE_COLUMNS];
    EACH_OF_LANE(k, c, turn, end) values[k] = GET(x, first + c) * row_rstd * gamma[c];
    EACH_OF_LANE(k, c, turn, end) PUT(y, first + c, values[k]);
  }
  if (row < rows && ROW_LANE == 0) rstd[row] = row_rstd;
}

KERNEL TYPED(rms_norm_dx)(SLICE(const STORED, dy), SLICE(const STORED, x), SLICE(const float, gamma),
                          SLICE(const float, rstd), SLICE(STORED, dx), LONG rows, LONG columns, int adds) {
  OPEN(const STORED, dy)
  OPEN(const STORED, x)
  OPEN(const float, gamma)
  OPEN(const float, rstd)
  OPEN(STORED, dx)
  SHARED float partial[GROUP_SIZE];
  const LONG row = ROW_OF_GROUP, first = row * columns, end = row < rows ? columns : 0;
  const float row_rstd = row < rows ? rstd[row] : 0;
  float projection = 0;
  for (LONG c = ROW_LANE; c < end; c += ROW_LANES)
    projection += GET(dy, first + c) * gamma[c] * (GET(x, first + c) * row_rstd);
  const float mean_projection = SumOverLanes(partial, projection) / (float)columns;
  EACH_TURN(turn, end) {
    float gradients[LANE_COLUMNS];
    EACH_OF_LANE(k, c, turn, end) {
      const float before = adds ? GET(dx, first + c) : 0.0f;
      gradients[k] = before + row_rstd * (GET(dy, first + c) * gamma[c] -
                                          GET(x, first + c) * row_rstd * mean_projection);
    }
    EACH_OF_LANE(k, c, turn, end) PUT(dx, first + c, gradients[k]);
  }
}

KERNEL TYPED(rms_norm_column_sums)(SLICE(const STORED, dy), SLICE(const STORED, x), SLICE(const float, rstd),
                                   SLICE(float, sums), LONG rows, LONG columns, LONG chunk_rows) {
  OPEN(const STORED, dy)
  OPEN(const STORED, x)
  OPEN(const float, rstd)
  OPEN(float, sums)
  SHARED float partial[GROUP_SIZE];
  const LONG column = COLUMN_OF_GROUP, end = END_ROW_OF_CHUNK;
  float sum = 0;
  if (column < columns) {
    UNROLL_8
    for (LONG row = FIRST_ROW_OF_CHUNK; row < end; row += ROWS_PER_GROUP) {
      sum += GET(dy, row * columns + column) * (GET(x, row * columns + column) * rstd[row]);
    }
  }
  StoreColumnSum(partial, sum, sums, column, columns);
}
