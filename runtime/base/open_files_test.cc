#include "runtime/base/open_files.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>

namespace medley {
namespace {

// As it was, at the end of a test.
class KeptLimit {
 public:
  KeptLimit() { REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0); }
  ~KeptLimit() { (void)setrlimit(RLIMIT_NOFILE, &before_); }
  const rlimit& before() const { return before_; }

 private:
  rlimit before_ = {};
};

TEST_CASE("the limit of open files is raised to the hard one") {
  const KeptLimit kept;
  const rlimit low = {64, kept.before().rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  RaiseOpenFilesLimit();
  rlimit raised = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &raised) == 0);
  CHECK(raised.rlim_cur == kept.before().rlim_max);
  CHECK(raised.rlim_max == kept.before().rlim_max);
}

TEST_CASE("who needs more open files than the limit leaves is told so, with the numbers") {
  const KeptLimit kept;
  const rlimit limit = {256, kept.before().rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(CheckOpenFilesFor(100, "100 peers").ok());
  // Those that are open now, the standard ones at least, and those that come and go count as well.
  CHECK_FALSE(CheckOpenFilesFor(256 - 33, "peers").ok());
  const absl::Status refused = CheckOpenFilesFor(1000, "the 500 peers of rank 3");
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()),
             Catch::StartsWith("the 500 peers of rank 3 need 1000 open files beside ") &&
                 Catch::Contains("the limit is 256. Raise the hard limit"));
}

}  // namespace
}  // namespace medley
