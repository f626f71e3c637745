#include "runtime/device/pinned_room.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/available_memory.h"

namespace medley {

absl::Status CheckPinnedRoom(const CopyLane& lane, Bytes need, absl::string_view what,
                             const std::filesystem::path& root) {
  if (!lane.PinnedTakesMemory()) return absl::OkStatus();
  const Bytes available = AvailableHostMemory(root);
  if (available == Bytes{} || need <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(what, " need ", FormatBytes(need), " of it; the host has ",
                                                   FormatBytes(available), " available"));
}

}  // namespace medley
