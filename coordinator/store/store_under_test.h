#pragma once
#include <memory>
#include <string>

#include "coordinator/store/store.h"

namespace medley {

// A directory of the test's own, gone with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string database_path() const { return path_ + "/medley.db"; }

 private:
  std::string path_;
};

// Fails the test if the store does not open.
std::unique_ptr<Store> OpenStore(const TemporaryDirectory& directory, const StoreOptions& options = {});

v1::JobSpec SpecNamed(const std::string& name);
v1::StepMetrics Step(uint32_t step, double loss);
v1::LogLine Line(const std::string& text);

}  // namespace medley
