#include "coordinator/rpc/stream_quota.h"

#include <catch2/catch.hpp>
#include <vector>

#include "absl/strings/str_cat.h"

namespace medley {
namespace {

TEST_CASE("a client has as many streams as it may, and takes none from others") {
  StreamQuota quota;
  std::vector<StreamQuota::Slot> open;
  for (int i = 0; i < StreamQuota::kMostOfClient; ++i) open.push_back(*quota.Open("ada"));
  const absl::Status refused = quota.Open("ada").status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(refused.message() == "\"ada\" has 200 streams open, as many as a client may have: end one first");
  CHECK(quota.Open("grace").ok());
  open.pop_back();
  CHECK(quota.Open("ada").ok());  // and it ends at once
  CHECK(quota.Open("ada").ok());
}

TEST_CASE("all together have as many as there may be") {
  StreamQuota quota;
  std::vector<StreamQuota::Slot> open;
  for (int i = 0; i < StreamQuota::kMostOfAll; ++i)
    open.push_back(*quota.Open(absl::StrCat("client ", i % 20)));
  const absl::Status refused = quota.Open("one more").status();
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(refused.message() == "2000 streams are open here, as many as there may be: try again later");
  open.clear();
  CHECK(quota.Open("one more").ok());
}

}  // namespace
}  // namespace medley
