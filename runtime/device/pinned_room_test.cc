#include "runtime/device/pinned_room.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

class Lane final : public CopyLane {
 public:
  explicit Lane(bool takes_memory) : takes_memory_(takes_memory) {}
  absl::StatusOr<std::unique_ptr<PinnedMemory>> AllocatePinned(Bytes size) override {
    return absl::UnimplementedError("not asked for");
  }
  bool PinnedTakesMemory() const override { return takes_memory_; }
  absl::Status Upload(absl::Span<const std::byte> from, Buffer& to, Bytes offset) override {
    return absl::OkStatus();
  }
  absl::Status Download(Buffer& from, Bytes offset, absl::Span<std::byte> to) override {
    return absl::OkStatus();
  }
  Fence Record() override { return {}; }
  absl::Status Wait(Fence fence) override { return absl::OkStatus(); }
  absl::Status AwaitQueue(Fence fence) override { return absl::OkStatus(); }

 private:
  const bool takes_memory_;
};

TEST_CASE("pinned memory that the host has not is refused, with the numbers") {
  const TemporaryDirectory host;
  std::filesystem::create_directories(host.File("proc"));
  host.Write("proc/meminfo", "MemAvailable: 1048576 kB\n");
  const Lane lane(true);
  CHECK(CheckPinnedRoom(lane, GiB(1), "copies in host memory", host.path()).ok());
  const absl::Status refused = CheckPinnedRoom(lane, GiB(2), "copies in host memory", host.path());
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(refused.message() == "copies in host memory need 2.0 GiB of it; the host has 1.0 GiB available");
}

TEST_CASE("what takes no memory, and a host of which nothing is known, refuse nothing") {
  const TemporaryDirectory unknown;
  CHECK(CheckPinnedRoom(Lane(true), GiB(1 << 20), "copies", unknown.path()).ok());
  CHECK(CheckPinnedRoom(Lane(false), GiB(1 << 20), "copies").ok());
}

}  // namespace
}  // namespace medley
