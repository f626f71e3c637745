#include "runtime/base/stop_after.h"

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("a flag is set when its time has passed") {
  std::atomic<bool> stop = false;
  const StopAfter limit(stop, absl::ZeroDuration());
  while (!stop) std::this_thread::yield();
  CHECK(stop);
}

TEST_CASE("what ends before its time is not stopped, and is not waited for") {
  std::atomic<bool> stop = false;
  { const StopAfter limit(stop, absl::Hours(1)); }
  { const StopAfter limit(stop, absl::InfiniteDuration()); }
  CHECK_FALSE(stop);
}

}  // namespace
}  // namespace medley
