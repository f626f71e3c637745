#pragma once
#include <string>

#include "runtime/base/files/temporary_directory.h"

namespace medley {

// An emulation profile in a file of its own, for tests: 64 GiB, f32 at 1 TFLOP/s; `more` lines come last.
class TestProfile {
 public:
  explicit TestProfile(const std::string& more = "")
      : path_(directory_.Write("profile.yaml",
                               "kind: Test-1\nmemory_bytes: 64GiB\nmatmul_f32_flops_per_second: 1e12\n"
                               "memory_bytes_per_second: 1e11\nhost_link_bytes_per_second: 1e9\n"
                               "op_overhead_seconds: 1e-5\n" +
                                   more)) {}

  const std::string& path() const { return path_; }

 private:
  const TemporaryDirectory directory_;
  const std::string path_;
};

}  // namespace medley
