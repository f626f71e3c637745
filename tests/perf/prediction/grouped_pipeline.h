#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/perf/prediction/published_rows.h"

// Pipelines of groups of unlike devices, as Zorse runs them (arXiv 2507.10392): in a group every device has all of its
// layers and a part of the micro-batches; groups take ranges of layers in turns, all micro-batches a range at a time.
// Layers take what was measured on each kind.
namespace medley {

// A layer of one model on one kind at one sequence length, in 16 bits.
struct MeasuredLayer {
  // By micro-batch, from one sequence on.
  std::vector<double> forward_seconds, backward_seconds;
};

struct LayerLibrary {
  std::map<std::string, MeasuredLayer> layers;     // by "MODEL KIND SEQUENCE", as the files name them
  std::map<std::string, double> layer_parameters;  // by model
};

// Of data/model_latencies.json and data/model_stats.json in `folder` (github.com/benson-guo/zorse). NotFound: a file
// lacks. InvalidArgument: it is none of these.
absl::StatusOr<LayerLibrary> ReadLayerLibrary(const std::string& folder);

// FailedPrecondition with the reason if the row cannot be predicted. PredictStep's errors.
absl::StatusOr<double> GroupedPipelineSeconds(const PublishedRow& row, const LayerLibrary& library);

}  // namespace medley
