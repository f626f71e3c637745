#pragma once
#include <map>
#include <string>
#include <vector>

#include "coordinator/roofline/device_figures.h"
#include "tests/perf/prediction/grouped_pipeline.h"

// How well a kind's coefficients, fitted on measured layers of some models, say the times of layers of others.
namespace medley {

struct LayerFit {
  std::vector<double>
      errors;  // of forward and backward together, each model judged by a fit that has not seen it
  Calibration of_all;
};

// The kinds of `library` (as it names them) with layers of at least two Llamas, by the names of profiles/.
const std::map<std::string, std::string>& LayerKinds();

LayerFit FitLayers(const DeviceFigures& figures, const std::string& library_kind,
                   const LayerLibrary& library);

}  // namespace medley
