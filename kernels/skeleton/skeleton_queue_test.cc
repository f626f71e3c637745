#include "kernels/skeleton/skeleton_queue.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

namespace medley {
namespace {

std::vector<std::byte> Bytewise(int value, size_t count) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST_CASE("nothing has happened before someone waits, and then everything up to the fence, in order") {
  SkeletonQueue queue(MiB(1));
  auto buffer = queue.Allocate({8});
  REQUIRE(buffer.ok());
  CHECK((*buffer)->host_address() == nullptr);
  std::vector<std::byte> early = Bytewise(9, 8), late = Bytewise(9, 8);
  REQUIRE(queue.Upload(Bytewise(1, 8), **buffer, {0}).ok());
  REQUIRE(queue.Download(**buffer, {0}, absl::MakeSpan(early)).ok());
  const Fence between = queue.Record();
  REQUIRE(queue.Upload(Bytewise(2, 4), **buffer, {4}).ok());
  REQUIRE(queue.Download(**buffer, {0}, absl::MakeSpan(late)).ok());
  CHECK(early == Bytewise(9, 8));
  REQUIRE(queue.Wait(between).ok());
  CHECK(early == Bytewise(1, 8));
  CHECK(late == Bytewise(9, 8));
  REQUIRE(queue.Wait(queue.Record()).ok());
  CHECK(std::memcmp(late.data(), "\1\1\1\1\2\2\2\2", 8) == 0);
}

TEST_CASE("work that failed poisons the queue: nothing after it runs, every wait has its error") {
  SkeletonQueue queue(MiB(1));
  bool ran = false;
  REQUIRE(queue.Submit([] { return absl::InternalError("first"); }).ok());
  REQUIRE(queue
              .Submit([&] {
                ran = true;
                return absl::InternalError("second");
              })
              .ok());
  CHECK(queue.Wait(queue.Record()).message() == "first");
  CHECK_FALSE(ran);
  CHECK(queue.Wait({0}).message() == "first");
  CHECK(queue.Submit([] { return absl::OkStatus(); }).message() == "first");
}

TEST_CASE("a buffer may go while submitted work still uses its memory") {
  SkeletonQueue queue(MiB(1));
  std::vector<std::byte> back(4);
  {
    auto buffer = queue.Allocate({4});
    REQUIRE(buffer.ok());
    REQUIRE(queue.Upload(Bytewise(5, 4), **buffer, {0}).ok());
    REQUIRE(queue.Download(**buffer, {0}, absl::MakeSpan(back)).ok());
  }
  CHECK(queue.allocated() == Bytes{0});
  CHECK(queue.peak_allocated() == Bytes{4});
  REQUIRE(queue.Wait(queue.Record()).ok());
  CHECK(back == Bytewise(5, 4));
}

}  // namespace
}  // namespace medley
