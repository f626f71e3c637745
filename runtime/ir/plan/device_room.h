#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"

namespace medley {

// What the ops of a device hold while micro-batches of at most so many sequences pass.
struct SizedWorkspace {
  int micro_batch_sequences = 0;
  Bytes bytes;
  friend bool operator==(const SizedWorkspace&, const SizedWorkspace&) = default;
};

// The memory of a device, and what its ops take of it beside what the memory model counts.
struct DeviceRoom {
  Bytes memory;                                   // limit
  Bytes workspace;                                // that the ops hold with micro-batches of any size
  std::vector<SizedWorkspace> workspace_by_size;  // of those sizes that are known, ascending
  double copy_bytes_per_parameter = 0;  // packed or converted copies, of each that products multiply by
  Bytes largest_buffer;  // one part of the memory model may take so much; 0: there is no such limit

  // micro_batch_sequences: of the largest; 0: of any size.
  Bytes WorkspaceFor(int micro_batch_sequences) const {
    if (micro_batch_sequences > 0) {
      for (const SizedWorkspace& of : workspace_by_size) {
        if (of.micro_batch_sequences >= micro_batch_sequences) return of.bytes;
      }
    }
    return workspace;
  }
  Bytes CopiesOf(int64_t multiplied) const {
    return {static_cast<int64_t>(std::ceil(copy_bytes_per_parameter * static_cast<double>(multiplied)))};
  }
  // What is left for the memory model of a rank whose products multiply by so many elements of f32
  // (RankMemory::multiplied), with such micro-batches, however large its buffers are.
  Bytes LeftFor(int64_t multiplied, int micro_batch_sequences) const {
    return memory - WorkspaceFor(micro_batch_sequences) - CopiesOf(multiplied);
  }
  // Of ops that were not measured.
  DeviceRoom LimitsAlone() const { return {.memory = memory, .largest_buffer = largest_buffer}; }
  friend bool operator==(const DeviceRoom&, const DeviceRoom&) = default;
};

// Where layers live that are not on a device (Unit::window_layers).
struct HostRoom {
  std::string host;  // devices with the same one have its memory together
  Bytes memory;      // of the host; 0: not known, and refuses nothing
};

}  // namespace medley
