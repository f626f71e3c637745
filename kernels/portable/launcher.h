#pragma once
#include <cstdint>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/device/ops.h"

// What PortableOps needs of a device that runs kernels: the one seam between the portable kernel sources and
// the vendor interfaces that run them.
namespace medley {

// A kernel's argument: a slice becomes a pointer to its first element (null if the slice is empty).
using KernelArgument = std::variant<Slice, int32_t, int64_t, float, double>;

// `groups` work-groups (thread blocks) in each dimension, of `group_size` work-items each in the first.
// Nothing is launched if one of `groups` is zero.
struct LaunchShape {
  int64_t groups[3] = {1, 1, 1};
  int group_size = 256;
};

// Runs the kernels of one device, in the order of submission with everything else on its queue.
// Thread: the one that submits to the device's queue.
class KernelLauncher {
 public:
  virtual ~KernelLauncher() = default;

  // Submits `kernel`, a name in kernels/portable/source. Internal: no such kernel, or the driver refused,
  // with its words.
  virtual absl::Status Launch(const char* kernel, const LaunchShape& shape,
                              absl::Span<const KernelArgument> arguments) = 0;

  // Device memory of at least `size`, aligned to 64, kept by the launcher. Each
  // index has its own, and what the last call with the same one returned is void, but not for kernels already
  // submitted. ResourceExhausted: the device has no more memory.
  enum ScratchIndex : int { kLogits, kPartials, kLibrary, kScratchIndexes };
  virtual absl::StatusOr<Slice> Scratch(int index, Bytes size) = 0;

  // Bytes that Scratch holds, which the queue counts among what is allocated.
  virtual Bytes scratch_size() const = 0;

  // Whether the device computes in f64; without it the ops that need it decline.
  virtual bool has_f64() const = 0;

  // Whether each f32 operation rounds to nearest and subnormals are kept; without it AdamW declines.
  virtual bool has_exact_f32() const { return true; }
};

}  // namespace medley
