#include "coordinator/rpc/audit.h"

#include <catch2/catch.hpp>

#include "coordinator/store/store_under_test.h"
#include "runtime/base/unix_time.h"

namespace medley {
namespace {

TEST_CASE("the audit is kept for as long as it is to be, and what is dropped is told") {
  const TemporaryDirectory directory;
  const auto store = OpenStore(directory);
  Audit audit(*store);
  for (const absl::Duration age : {absl::Hours(49), absl::Hours(47)}) {
    v1::AuditRecord record;
    record.set_method("SubmitJob");
    record.set_at_seconds(UnixSecondsNow() - absl::ToDoubleSeconds(age));
    REQUIRE(store->AppendAudit(record).ok());
  }
  audit.DropOlderThan(absl::Hours(72));
  CHECK(store->ListAudit(10)->size() == 2);
  audit.DropOlderThan(absl::Hours(48));
  const auto records = store->ListAudit(10);
  REQUIRE(records.ok());
  REQUIRE(records->size() == 2);
  CHECK((*records)[0].number() == 2);
  CHECK((*records)[1].method() == "DropAudit");
}

}  // namespace
}  // namespace medley
