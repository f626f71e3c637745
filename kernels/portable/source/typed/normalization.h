#include "kernels/portable/source/row_sums.h"
#include "kernels/portable/source/typed/neighbours.h"

INLINE void TYPED(ColumnSums)(GLOBAL const STORED* x, GLOBAL float* sums, LONG rows, LONG columns,
                              LONG chunk_rows, int whole, LOCAL float* partial) {
  const LONG column = COLUMN_OF_GROUP, end = END_ROW_OF_CHUNK;
  float values[RUN_ELEMENTS], sum[RUN_ELEMENTS] = {0};
  UNROLL_4
  for (LONG row = FIRST_ROW_OF_CHUNK; row < end; row += ROWS_PER_GROUP) {
    TYPED(Load)(x + row * columns, column, columns, whole, values);
    EACH_OF_RUN(k) sum[k] += values[k];
  }
  StoreColumnSums(partial, sum, sums, columns);
}

KERNEL TYPED(column_sums)(SLICE(const STORED, x), SLICE(float, sums), LONG rows, LONG columns,
                          LONG chunk_rows) {
  OPEN(const STORED, x)
  OPEN(float, sums)
  SHARED float partial[COLUMN_SUMS_PARTIAL];
  if (ARE_RUNS(x, columns)) {
    TYPED(ColumnSums)(x, sums, rows, columns, chunk_rows, 1, partial);
  } else {
    TYPED(ColumnSums)(x, sums, rows, columns, chunk_rows, 0, partial);
  }
}

// Of what a norm's input gradient is made of, a run of each.
INLINE void TYPED(LoadForGradient)(GLOBAL const STORED* x, GLOBAL const STORED* dy, GLOBAL const float* gamma,
                                   LONG first, LONG end, int whole, float* values, float* gradients,
                                   float* gammas) {
  TYPED(Load)(x, first, end, whole, values);
  TYPED(Load)(dy, first, end, whole, gradients);
  Load(gamma, first, end, whole, gammas);
}

// Forward and dx: groups ceil(rows / ROWS_PER_GROUP). Rows past the last take part in barriers and write
// nothing.

INLINE void TYPED(LayerNormForward)(GLOBAL const STORED* x, GLOBAL const float* gamma,
                                    GLOBAL const float* beta, GLOBAL STORED* y, GLOBAL float* mean,
                                    GLOBAL float* rstd, LONG rows, LONG columns, float epsilon, int whole,
                                    LOCAL float* partial) {
  const LONG row = ROW_OF_GROUP, first = row * columns, end = row < rows ? columns : 0;
  float values[RUN_ELEMENTS], gammas[RUN_ELEMENTS], betas[RUN_ELEMENTS], sum = 0, squares = 0;
  UNROLL_4
  EACH_TURN(turn, end) {
    TYPED(Load)(x + first, COLUMN_OF_TURN(turn), end, whole, values);
    EACH_OF_RUN(k) sum += values[k];
  }
  const float row_mean = SumOverLanes(partial, sum) / (float)columns;
  UNROLL_4
  EACH_TURN(turn, end) {
    const LONG c = COLUMN_OF_TURN(turn);
    TYPED(Load)(x + first, c, end, whole, values);
    EACH_OF_RUN(k) {
      const float deviation = c + k < end ? values[k] - row_mean : 0.0f;
      squares += deviation * deviation;
    }
  }
  const float row_rstd = 1.0f / SQRT(SumOverLanes(partial, squares) / (float)columns + epsilon);
  UNROLL_4
  EACH_TURN(turn, end) {
    const LONG c = COLUMN_OF_TURN(turn);
    TYPED(Load)(x + first, c, end, whole, values);
    Load(gamma, c, end, whole, gammas);
    Load(beta, c, end, whole, betas);
    EACH_OF_RUN(k) values[k] = (values[k] - row_mean) * row_rstd * gammas[k] + betas[k];
    TYPED(Store)(y + first, c, end, whole, values);
  }
  if (row < rows && ROW_LANE == 0) {
    mean[row] = row_mean;
    rstd[row] = row_rstd;
  }
}

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
  if (ARE_RUNS(x, columns) && ARE_RUNS(y, columns) && ARE_RUNS(gamma, columns) && ARE_RUNS(beta, columns)) {
    TYPED(LayerNormForward)(x, gamma, beta, y, mean, rstd, rows, columns, epsilon, 1, partial);
  } else {
    TYPED(LayerNormForward)(x, gamma, beta, y, mean, rstd, rows, columns, epsilon, 0, partial);
  }
}

// dx may be dy unless it is added to.
INLINE void TYPED(LayerNormDx)(GLOBAL const STORED* dy, GLOBAL const STORED* x, GLOBAL const float* gamma,
                               GLOBAL const float* mean, GLOBAL const float* rstd, GLOBAL STORED* dx,
                               LONG rows, LONG columns, int adds, int whole, LOCAL float* partial) {
  const LONG row = ROW_OF_GROUP, first = row * columns, end = row < rows ? columns : 0;
  const float row_mean = row < rows ? mean[row] : 0, row_rstd = row < rows ? rstd[row] : 0;
  float values[RUN_ELEMENTS], gradients[RUN_ELEMENTS], gammas[RUN_ELEMENTS], before[RUN_ELEMENTS] = {0};
  float sum = 0, projection = 0;
  UNROLL_4
  EACH_TURN(turn, end) {
    const LONG c = COLUMN_OF_TURN(turn);
    TYPED(LoadForGradient)(x + first, dy + first, gamma, c, end, whole, values, gradients, gammas);
    EACH_OF_RUN(k) {
      const float gradient = gradients[k] * gammas[k];
      sum += gradient;
      projection += gradient * ((values[k] - row_mean) * row_rstd);
    }
  }
  const float mean_sum = SumOverLanes(partial, sum) / (float)columns;
  const float mean_projection = SumOverLanes(partial, projection) / (float)columns;
  UNROLL_4
  EACH_TURN(turn, end) {
    const LONG c = COLUMN_OF_TURN(turn);
    TYPED(LoadForGradient)(x + first, dy + first, gamma, c, end, whole, values, gradients, gammas);
    if (adds) TYPED(Load)(dx + first, c, end, whole, before);
    EACH_OF_RUN(k) {
      const float normalized = (values[k] - row_mean) * row_rstd;
      values[k] = before[k] + row_rstd * (gradients[k] * gammas[k] - mean_sum - normalized * mean_projection);
    }
    TYPED(Store)(dx + first, c, end, whole, values);
  }
}

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
  if (ARE_RUNS(dy, columns) && ARE_RUNS(x, columns) && ARE_RUNS(gamma, columns) && ARE_RUNS(dx, columns)) {
    TYPED(LayerNormDx)(dy, x, gamma, mean, rstd, dx, rows, columns, adds, 1, partial);
  } else {
    TYPED(LayerNormDx)(dy, x, gamma, mean, rstd, dx, rows, columns, adds, 0, partial);
  }
}

// Partial sums for dgamma and dbeta, as column_sums leaves them.
INLINE void TYPED(LayerNormColumnSums)(GLOBAL const STORED* dy, GLOBAL const STORED* x,
                                       GLOBAL const float* mean, GLOBAL const float* rstd,
                                       GLOBAL float* gamma_sums, GLOBAL float* beta_sums, LONG rows,
                                       LONG columns, LONG chunk_rows, int whole, LOCAL float* partial) {
  const LONG column = COLUMN_OF_GROUP, end = END_ROW_OF_CHUNK;
  float values[RUN_ELEMENTS], gradients[RUN_ELEMENTS];
  float gamma_sum[RUN_ELEMENTS] = {0}, beta_sum[RUN_ELEMENTS] = {0};
  UNROLL_4
  for (LONG row = FIRST_ROW_OF_CHUNK; row < end; row += ROWS_PER_GROUP) {
    TYPED(Load)(x + row * columns, column, columns, whole, values);
    TYPED(Load)(dy + row * columns, column, columns, whole, gradients);
    EACH_OF_RUN(k) {
      gamma_sum[k] += gradients[k] * ((values[k] - mean[row]) * rstd[row]);
      beta_sum[k] += gradients[k];
    }
  }
  StoreColumnSums(partial, gamma_sum, gamma_sums, columns);
  StoreColumnSums(partial, beta_sum, beta_sums, columns);
}

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
  SHARED float partial[COLUMN_SUMS_PARTIAL];
  if (ARE_RUNS(dy, columns) && ARE_RUNS(x, columns)) {
    TYPED(LayerNormColumnSums)
    (dy, x, mean, rstd, gamma_sums, beta_sums, rows, columns, chunk_rows, 1, partial);
  } else {
    TYPED(LayerNormColumnSums)
    (dy, x, mean, rstd, gamma_sums, beta_sums, rows, columns, chunk_rows, 0, partial);
  }
}

INLINE void TYPED(RmsNormForward)(GLOBAL const STORED* x, GLOBAL const float* gamma, GLOBAL STORED* y,
                                  GLOBAL float* rstd, LONG rows, LONG columns, float epsilon, int whole,
                                  LOCAL float* partial) {
  const LONG row = ROW_OF_GROUP, first = row * columns, end = row < rows ? columns : 0;
  float values[RUN_ELEMENTS], gammas[RUN_ELEMENTS], squares = 0;
  UNROLL_4
  EACH_TURN(turn, end) {
    TYPED(Load)(x + first, COLUMN_OF_TURN(turn), end, whole, values);
    EACH_OF_RUN(k) squares += values[k] * values[k];
  }
  const float row_rstd = 1.0f / SQRT(SumOverLanes(partial, squares) / (float)columns + epsilon);
  UNROLL_4
  EACH_TURN(turn, end) {
    const LONG c = COLUMN_OF_TURN(turn);
    TYPED(Load)(x + first, c, end, whole, values);
    Load(gamma, c, end, whole, gammas);
    EACH_OF_RUN(k) values[k] = values[k] * row_rstd * gammas[k];
    TYPED(Store)(y + first, c, end, whole, values);
  }
  if (row < rows && ROW_LANE == 0) rstd[row] = row_rstd;
}

KERNEL TYPED(rms_norm_forward)(SLICE(const STORED, x), SLICE(const float, gamma), SLICE(STORED, y),
                               SLICE(float, rstd), LONG rows, LONG columns, float epsilon) {
  OPEN(const STORED, x)
  OPEN(const float, gamma)
  OPEN(STORED, y)
  OPEN(float, rstd)
  SHARED float partial[GROUP_SIZE];
  if (ARE_RUNS(x, columns) && ARE_RUNS(gamma, columns) && ARE_RUNS(y, columns)) {
    TYPED(RmsNormForward)(x, gamma, y, rstd, rows, columns, epsilon, 1, partial);
  } else {
    TYPED(RmsNormForward)(x, gamma, y, rstd, rows, columns, epsilon, 0, partial);
  }
}

INLINE void TYPED(RmsNormDx)(GLOBAL const STORED* dy, GLOBAL const STORED* x, GLOBAL const float* gamma,
                             GLOBAL const float* rstd, GLOBAL STORED* dx, LONG rows, LONG columns, int adds,
                             int whole, LOCAL float* partial) {
  const LONG row = ROW_OF_GROUP, first = row * columns, end = row < rows ? columns : 0;
  const float row_rstd = row < rows ? rstd[row] : 0;
  float values[RUN_ELEMENTS], gradients[RUN_ELEMENTS], gammas[RUN_ELEMENTS], before[RUN_ELEMENTS] = {0};
  float projection = 0;
  UNROLL_4
  EACH_TURN(turn, end) {
    const LONG c = COLUMN_OF_TURN(turn);
    TYPED(LoadForGradient)(x + first, dy + first, gamma, c, end, whole, values, gradients, gammas);
    EACH_OF_RUN(k) projection += gradients[k] * gammas[k] * (values[k] * row_rstd);
  }
  const float mean_projection = SumOverLanes(partial, projection) / (float)columns;
  UNROLL_4
  EACH_TURN(turn, end) {
    const LONG c = COLUMN_OF_TURN(turn);
    TYPED(LoadForGradient)(x + first, dy + first, gamma, c, end, whole, values, gradients, gammas);
    if (adds) TYPED(Load)(dx + first, c, end, whole, before);
    EACH_OF_RUN(k) {
      values[k] = before[k] + row_rstd * (gradients[k] * gammas[k] - values[k] * row_rstd * mean_projection);
    }
    TYPED(Store)(dx + first, c, end, whole, values);
  }
}

KERNEL TYPED(rms_norm_dx)(SLICE(const STORED, dy), SLICE(const STORED, x), SLICE(const float, gamma),
                          SLICE(const float, rstd), SLICE(STORED, dx), LONG rows, LONG columns, int adds) {
  OPEN(const STORED, dy)
  OPEN(const STORED, x)
  OPEN(const float, gamma)
  OPEN(const float, rstd)
  OPEN(STORED, dx)
  SHARED float partial[GROUP_SIZE];
  if (ARE_RUNS(dy, columns) && ARE_RUNS(x, columns) && ARE_RUNS(gamma, columns) && ARE_RUNS(dx, columns)) {
    TYPED(RmsNormDx)(dy, x, gamma, rstd, dx, rows, columns, adds, 1, partial);
  } else {
    TYPED(RmsNormDx)(dy, x, gamma, rstd, dx, rows, columns, adds, 0, partial);
  }
}

INLINE void TYPED(RmsNormColumnSums)(GLOBAL const STORED* dy, GLOBAL const STORED* x,
                                     GLOBAL const float* rstd, GLOBAL float* sums, LONG rows, LONG columns,
                                     LONG chunk_rows, int whole, LOCAL float* partial) {
  const LONG column = COLUMN_OF_GROUP, end = END_ROW_OF_CHUNK;
  float values[RUN_ELEMENTS], gradients[RUN_ELEMENTS], sum[RUN_ELEMENTS] = {0};
  UNROLL_4
  for (LONG row = FIRST_ROW_OF_CHUNK; row < end; row += ROWS_PER_GROUP) {
    TYPED(Load)(x + row * columns, column, columns, whole, values);
    TYPED(Load)(dy + row * columns, column, columns, whole, gradients);
    EACH_OF_RUN(k) sum[k] += gradients[k] * (values[k] * rstd[row]);
  }
  StoreColumnSums(partial, sum, sums, columns);
}

KERNEL TYPED(rms_norm_column_sums)(SLICE(const STORED, dy), SLICE(const STORED, x), SLICE(const float, rstd),
                                   SLICE(float, sums), LONG rows, LONG columns, LONG chunk_rows) {
  OPEN(const STORED, dy)
  OPEN(const STORED, x)
  OPEN(const float, rstd)
  OPEN(float, sums)
  SHARED float partial[COLUMN_SUMS_PARTIAL];
  if (ARE_RUNS(dy, columns) && ARE_RUNS(x, columns)) {
    TYPED(RmsNormColumnSums)(dy, x, rstd, sums, rows, columns, chunk_rows, 1, partial);
  } else {
    TYPED(RmsNormColumnSums)(dy, x, rstd, sums, rows, columns, chunk_rows, 0, partial);
  }
}
