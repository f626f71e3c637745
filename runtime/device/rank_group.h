#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/device/ops.h"

namespace medley {

// What the ranks of a unit exchange within its passes and before them, beside the device's ops and like them
// submitted to its queue, in order. All ranks of the unit call the same methods in the same order with slices
// of the same sizes and types. May block. One thread at a time, but for Error().
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  // How many ranks the unit has, and this one's place among them, from 0.
  virtual int members() const = 0;
  virtual int member() const = 0;

  // `x`, of any activation type, becomes its sum over the ranks: the same bits on all of them. Errors: a rank
  // is gone, or the device's.
  virtual absl::Status Sum(const Slice& x) = 0;

  // The same of `x`, beside what is submitted to the queue from now on, until EndSum(): what is submitted behind that follows the
  // sum. `x` is nobody else's meanwhile, and no other exchange is asked for. Errors: as for Sum.
  virtual absl::Status BeginSum(const Slice& x) = 0;
  virtual absl::Status EndSum() = 0;

  // Member m has the elements of `x` from ends[m - 1], or 0, to ends[m]; afterwards all have all. Errors: as
  // for Sum.
  virtual absl::Status Gather(const Slice& x, absl::Span<const int64_t> ends) = 0;

  // Of `x`, of any activation type, member m has the sum over the ranks of its elements from ends[m - 1], or
  // 0, to ends[m] afterwards; its others are undefined. Errors: as for Sum.
  virtual absl::Status Scatter(const Slice& x, absl::Span<const int64_t> ends) = 0;

  // Asked after a wait for the queue, before anybody is given what it has computed: why an exchange that the device had
  // under way by itself came to nothing, and all that followed it. Stays. Any thread.
  virtual absl::Status Error() { return absl::OkStatus(); }
};

}  // namespace medley
