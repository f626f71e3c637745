#include "coordinator/store/store_under_test.h"

#include <catch2/catch.hpp>

#include "coordinator/store/database.h"

namespace medley {

std::unique_ptr<Store> OpenStore(const TemporaryDirectory& directory, const StoreOptions& options) {
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(directory.path(), options);
  INFO(store.status().ToString());
  REQUIRE(store.ok());
  return *std::move(store);
}

void MakeVersion6(const std::string& file) {
  const auto database = Database::Open(file, Bytes{0});
  REQUIRE(database.ok());
  for (const char* change : {"ALTER TABLE nodes DROP COLUMN lost_at_seconds",
                             "ALTER TABLE nodes DROP COLUMN message", "DROP TRIGGER audit_is_not_shortened",
                             "CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit BEGIN SELECT "
                             "RAISE(ABORT, 'the audit is "
                             "appended to'); END",
                             "PRAGMA user_version = 6"})
    REQUIRE((*database)->Run(change).ok());
}

v1::JobSpec SpecNamed(const std::string& name) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.mutable_model()->mutable_gpt2()->set_layers(2);
  spec.set_steps(100);
  return spec;
}

v1::StepMetrics Step(uint32_t step, double loss) {
  v1::StepMetrics metrics;
  metrics.set_step(step);
  metrics.set_loss(loss);
  return metrics;
}

v1::LogLine Line(const std::string& text) {
  v1::LogLine line;
  line.set_source("coordinator");
  line.set_text(text);
  return line;
}

}  // namespace medley
