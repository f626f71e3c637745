#pragma once
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/checkpoint/hugging_face.h"
#include "runtime/exec/file_window_source.h"
#include "runtime/job/training_spec.h"

// The golden files (README.md) as a job of Medley's. From the root of the repository, where tests run.
namespace medley {

inline const char* const kGoldenFolder = "tests/golden/gpt2_tiny";

inline nlohmann::json Golden() { return nlohmann::json::parse(std::ifstream(std::string(kGoldenFolder) + "/golden.json")); }

inline TrainingSpec GoldenJob() {
  const nlohmann::json t = Golden()["training"];
  const std::string folder = kGoldenFolder;
  TrainingSpec spec;
  spec.job_name = "golden";
  spec.hugging_face_directory = folder;
  spec.shape = {.model = *ReadModelConfig(folder), .sequence = t["sequence"],
                .global_batch_sequences = t["global_batch_sequences"]};
  spec.train_file = folder + "/" + t["tokens"].get<std::string>();
  spec.validation_file = folder + "/" + t["validation_tokens"].get<std::string>();
  spec.data_format = TokenFormat::kUint16;
  spec.steps = t["steps"];
  spec.optimizer = {.learning_rate = t["learning_rate"], .minimum_learning_rate = t["least_learning_rate"],
                    .warmup_steps = t["warm_up_steps"], .decay = Decay::kCosine, .beta1 = t["beta_1"],
                    .beta2 = t["beta_2"], .epsilon = t["epsilon"], .weight_decay = t["weight_decay"],
                    .clip_norm = t["clip_norm"]};
  spec.validation_batches = t["validation_batches"];
  return spec;
}

}  // namespace medley
