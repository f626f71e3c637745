#pragma once

namespace medley {

// While it lives, the calling thread and its OpenMP team take numbers below 1.2e-38 as zero. Softmax makes
// many of them (e^-90 is one), and a matmul over them runs a hundred times slower than over zeros.
class FlushSubnormals {
 public:
  // `threads`: the size of the team.
  explicit FlushSubnormals(int threads);
  ~FlushSubnormals();
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  const int threads_;
  const unsigned before_;
};

}  // namespace medley
