#include "kernels/portable/source/typed/element_type.h"

// The table has the rows of the tokens [first_token, first_token + vocabulary): others have none.
// Groups (batch * sequence, ceil(columns / GROUP_ELEMENTS)).
KERNEL TYPED(embedding_forward)(SLICE(const int, tokens), SLICE(const float, token_embedding),
                                SLICE(const float, position_embedding), SLICE(STORED, y), LONG sequence,
                                LONG columns, LONG first_token, LONG vocabulary, int has_positions) {
  OPEN(const int, tokens)
  OPEN(const float, token_embedding)
  OPEN(const float, position_embedding)
  OPEN(STORED, y)
  const LONG row = GROUP_ID_0, token = tokens[row] - first_token, position = row % sequence * columns;
  const int has_token = token >= 0 && token < vocabulary;
  EACH_ELEMENT(c, GROUP_ID_1, columns) {
    const float value = has_token ? token_embedding[token * columns + c] : 0;
    PUT(y, row * columns + c, has_positions ? value + position_embedding[position + c] : value);
  }
}

// The group of a token's first appearance adds the gradients of all its appearances, in their order; the
// others find that they are not the first, or that the table has no such row. Groups (count, ceil(columns /
// GROUP_ELEMENTS)).
KERNEL TYPED(embedding_backward_tokens)(SLICE(const int, tokens), SLICE(const STORED, dy),
                                        SLICE(float, d_embedding), LONG count, LONG columns, LONG first_token,
                                        LONG vocabulary) {
  OPEN(const int, tokens)
  OPEN(const STORED, dy)
  OPEN(float, d_embedding)
  SHARED int matches[GROUP_SIZE];
  SHARED int any[1];
  const LONG row = GROUP_ID_0;
  const int token = tokens[row];
  const LONG to = (token - first_token) * columns;
  if (token < first_token || token >= first_token + vocabulary) return;
  if (LOCAL_ID == 0) any[0] = 0;
  BARRIER();
  for (LONG i = LOCAL_ID; i < row; i += GROUP_SIZE) {
    if (tokens[i] == token) any[0] = 1;
  }
  BARRIER();
  const int appeared_before = any[0];
  BARRIER();
  if (appeared_before) return;

  const LONG first_column = GROUP_ID_1 * GROUP_ELEMENTS + LOCAL_ID;
  float sums[GROUP_ELEMENTS / GROUP_SIZE];
  for (int k = 0; k < GROUP_ELEMENTS / GROUP_SIZE; ++k) {
    const LONG c = first_column + k * GROUP_SIZE;
    sums[k] = c < columns ? d_embedding[to + c] : 0;
  }
  for (LONG first = row; first < count; first += GROUP_SIZE) {
    const LONG i = first + LOCAL_ID;
    const int match = i < count && tokens[i] == token;
    matches[LOCAL_ID] = match;
    if (LOCAL_ID == 0) any[0] = 0;
    BARRIER();
    if (match) any[0] = 1;
    BARRIER();
    if (any[0]) {
      for (int member = 0; member < GROUP_SIZE; ++member) {
        if (!matches[member]) continue;
        for (int k = 0; k < GROUP_ELEMENTS / GROUP_SIZE; ++k) {
          const LONG c = first_column + k * GROUP_SIZE;
          if (c < columns) sums[k] += GET(dy, (first + member) * columns + c);
        }
      }
    }
    BARRIER();
  }
  for (int k = 0; k < GROUP_ELEMENTS / GROUP_SIZE; ++k) {
    const LONG c = first_column + k * GROUP_SIZE;
    if (c < columns) d_embedding[to + c] = sums[k];
  }
}

// Groups (sequence, ceil(columns / GROUP_ELEMENTS)); sequences of the batch in order.
KERNEL TYPED(embedding_backward_positions)(SLICE(const STORED, dy), SLICE(float, d_embedding), LONG batch,
                                           LONG sequence, LONG columns) {
  OPEN(const STORED, dy)
  OPEN(float, d_embedding)
  const LONG position = GROUP_ID_0;
  EACH_ELEMENT(c, GROUP_ID_1, columns) {
    float sum = d_embedding[position * columns + c];
    for (LONG b = 0; b < batch; ++b) sum += GET(dy, (b * sequence + position) * columns + c);
    d_embedding[position * columns + c] = sum;
  }
}
