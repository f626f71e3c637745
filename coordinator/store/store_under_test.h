#pragma once
#include <memory>
#include <string>

#include "coordinator/store/store.h"
#include "runtime/base/files/temporary_directory.h"

namespace medley {

// Fails the test if the store does not open.
std::unique_ptr<Store> OpenStore(const TemporaryDirectory& directory, const StoreOptions& options = {});

// Gives a file that no store has open the tables of version 6.
void MakeVersion6(const std::string& file);

v1::JobSpec SpecNamed(const std::string& name);
v1::StepMetrics Step(uint32_t step, double loss);
v1::LogLine Line(const std::string& text);

}  // namespace medley
