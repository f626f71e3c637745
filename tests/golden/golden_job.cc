#include "tests/golden/golden_job.h"

#include <fstream>

#include "runtime/engine/checkpoint/hugging_face.h"

namespace medley {

nlohmann::json Golden(const std::string& folder) {
  return nlohmann::json::parse(std::ifstream(folder + "/golden.json"));
}

TrainingSpec GoldenJob(const std::string& folder) {
  const nlohmann::json t = Golden(folder)["training"];
  TrainingSpec spec;
  spec.job_name = "golden";
  spec.hugging_face_directory = folder;
  spec.shape = {.model = *ReadModelConfig(folder),
                .sequence = t["sequence"],
                .global_batch_sequences = t["global_batch_sequences"]};
  spec.train_file = folder + "/" + t["tokens"].get<std::string>();
  spec.validation_file = folder + "/" + t["validation_tokens"].get<std::string>();
  spec.data_format = TokenFormat::kUint16;
  spec.steps = t["steps"];
  spec.optimizer = {.learning_rate = t["learning_rate"],
                    .minimum_learning_rate = t["least_learning_rate"],
                    .warmup_steps = t["warm_up_steps"],
                    .decay = Decay::kCosine,
                    .beta1 = t["beta_1"],
                    .beta2 = t["beta_2"],
                    .epsilon = t["epsilon"],
                    .weight_decay = t["weight_decay"],
                    .clip_norm = t["clip_norm"]};
  spec.validation_batches = t["validation_batches"];
  return spec;
}

}  // namespace medley
