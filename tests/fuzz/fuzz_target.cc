#include "tests/fuzz/fuzz_target.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace medley {
namespace {

std::atomic<uint64_t> accepted = 0;

}  // namespace

void Accepted() { ++accepted; }
uint64_t AcceptedCount() { return accepted; }

void Demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "FUZZ FINDING: it should hold that %s\n", what);
  std::abort();
}

void DemandRefusal(const absl::Status& status) {
  Demand(!status.ok(), "a refusal is an error");
  Demand(!status.message().empty(), "a refusal has a message");
  Demand(status.code() != absl::StatusCode::kUnknown, "a refusal has a code of its own");
}

}  // namespace medley
