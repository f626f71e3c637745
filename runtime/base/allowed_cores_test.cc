#include "runtime/base/allowed_cores.h"

#include <catch2/catch.hpp>
#include <thread>

namespace medley {
namespace {

TEST_CASE("cores are read of machines with more than a cpu_set_t has room for") {
  const int most = GENERATE(64, 1024, 1025, 8192);  // that the kernel may meet
  const std::vector<int> allowed = {0, 63, most - 1};
  std::vector<int> cores = {7};
  CHECK(ReadCores(
            [&](size_t bytes, cpu_set_t* set) {
              if (bytes * 8 < static_cast<size_t>(most)) {
                errno = EINVAL;
                return -1;
              }
              for (const int core : allowed) CPU_SET_S(core, bytes, set);
              return 0;
            },
            cores) == 0);
  CHECK(cores == (most == 64 ? std::vector<int>{0, 63} : allowed));
}

TEST_CASE("a refusal that no room helps against is told, and no core") {
  const int error = GENERATE(EPERM, ESRCH, EINVAL);
  std::vector<int> cores = {7};
  CHECK(ReadCores(
            [&](size_t, cpu_set_t*) {
              errno = error;
              return -1;
            },
            cores) == error);
  CHECK(cores.empty());
}

TEST_CASE("a thread runs on the cores it was given, and not on ones that are not there") {
  std::thread([] {
    std::vector<int> cores, own;
    REQUIRE(GetAllowedCores(0, cores) == 0);
    REQUIRE_FALSE(cores.empty());
    CHECK(SetAllowedCores(0, {cores.back()}) == 0);
    CHECK(GetAllowedCores(0, own) == 0);
    CHECK(own == std::vector<int>{cores.back()});
    CHECK(SetAllowedCores(0, {1 << 20}) == EINVAL);
    CHECK(SetAllowedCores(0, cores) == 0);
  }).join();
}

}  // namespace
}  // namespace medley
