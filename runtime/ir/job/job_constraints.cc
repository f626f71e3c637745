#include "runtime/ir/job/job_constraints.h"

#include <set>

namespace medley {
namespace {

constexpr int kLargestDefaultMicroBatch = 16;

}  // namespace

std::vector<int> CandidateMicroBatches(const JobConstraints& constraints, int batch_sequences) {
  std::set<int> sizes(constraints.micro_batch_sizes.begin(), constraints.micro_batch_sizes.end());
  if (sizes.empty()) {
    for (int size = 1; size <= kLargestDefaultMicroBatch; size *= 2) {
      if (batch_sequences % size == 0) sizes.insert(size);
    }
  }
  return {sizes.begin(), sizes.end()};
}

}  // namespace medley
