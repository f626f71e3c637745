#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "comm/staging/staging_terms.h"
#include "runtime/ir/link/link_model.h"

namespace medley {

// The memory of one end, as text for the other end of a probe; at most 200 bytes.
std::string EncodeMemory(const EndMemory& memory);
// InvalidArgument: none of ours, or a figure that cannot be; names it.
absl::StatusOr<EndMemory> DecodeMemory(const std::string& text);

// A link as it is between two devices' memories.
struct MemoryLink {
  LinkModel transfer;       // with the copies, of the slower direction
  std::string explanation;  // which way messages of some sizes take, and why; empty between memories of hosts
};
// `between_hosts`: between memories of the two hosts, as measured. Pure.
absl::StatusOr<MemoryLink> LinkOf(const EndMemory& one, const EndMemory& other,
                                  const LinkModel& between_hosts);

}  // namespace medley
