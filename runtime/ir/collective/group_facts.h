#pragma once
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace medley {

// How slices that are shared lie (OwnedSlices): ranks of another number have other ones. 0, which versions before had: by place.
inline constexpr int kSliceOrder = 1;

// What a rank tells the others of its device, by which all choose alike how gradients are summed.
struct GroupFacts {
  std::string device;        // for people: DeviceQueue::name()
  std::string library;       // GroupLibrary::name(); empty: none
  std::string identity;      // GroupLibrary::device(); empty: none
  std::string objection;     // why there is no library; empty: there is one
  bool host_reaches = true;  // as of EndMemory (comm/staging)
  bool network_reaches = false;
  int slice_order = kSliceOrder;  // that of its version
  std::string node;               // by the plan, which all ranks know: it is not told
  friend bool operator==(const GroupFacts&, const GroupFacts&) = default;
};

inline constexpr size_t kGroupFactsBytes = 512;

// Always kGroupFactsBytes. Texts that are too long for it are cut.
std::string EncodeGroupFacts(const GroupFacts& facts);

// InvalidArgument: no such bytes; says what is wrong with them.
absl::StatusOr<GroupFacts> DecodeGroupFacts(const std::string& bytes);

}  // namespace medley
