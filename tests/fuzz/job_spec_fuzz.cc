// Job specs as people write them.
#include "runtime/wire/job_codec.h"
#include "runtime/wire/yaml_message.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {

std::vector<std::string> FuzzSeeds() {
  return {R"(name: bible
model:
  gpt2: {layers: 4, hidden: 256, heads: 8, vocabulary: 256}
data: {train: /tmp/bible.txt, validation: /tmp/more.txt, format: text, order: shuffled}
batch: {sequences: 8, sequence_length: 256}
steps: 300
precision: f32
seed: 1
optimizer:
  learning_rate: 1e-3
  minimum_learning_rate: 1e-4
  warmup_steps: 20
  decay: cosine
  beta2: 0.99
validation: {every_steps: 50, batches: 4}
checkpoint: {directory: /tmp/checkpoints, every_steps: 50, keep: 2}
)",
          R"(name: pinned
model:
  llama: {layers: 2, hidden: 32, heads: 4, key_value_heads: 2, feed_forward: 56, vocabulary: 97}
data: {train: "/tmp/a \"quoted\" name", format: uint16}
batch:
  sequences: 4
  sequence_length: 16
steps: 1
checkpoint: {directory: /tmp/checkpoints}
plan:
  micro_batch_sequences: 2
  units:
    - {devices: [a/cpu0], blocks: [{first: 0, end: 2}]}
    - devices: [b/cpu0]
      blocks:
        - first: 2
          end: 4
  routes:
    - {units: [0, 1], micro_batches: 2}
)"};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  v1::JobSpec spec;
  const absl::Status read = ReadYaml(std::string(TextOf(data, size)), "job.yaml", &spec);
  if (!read.ok()) {
    DemandRefusal(read);
    Demand(read.message().substr(0, 9) == "job.yaml:", "a refusal names the file and the line");
    return 0;
  }
  v1::JobSpec again;
  const absl::Status reread = ReadYaml(WriteYaml(spec), "again.yaml", &again);
  Demand(reread.ok(), "what was read is written so that it can be read");
  Demand(again.SerializeAsString() == spec.SerializeAsString(), "it is read back as it was");
  const absl::StatusOr<TrainingSpec> decoded = DecodeJobSpec(spec, "job-1", std::nullopt);
  if (!decoded.ok()) {
    DemandRefusal(decoded.status());
    return 0;
  }
  Accepted();
  const absl::StatusOr<JobConstraints> constraints = DecodeConstraints(spec);
  Demand(constraints.ok(), "a job that is accepted has constraints");
  Demand(!CandidateMicroBatches(*constraints, decoded->shape.global_batch_sequences).empty(),
         "a job has a size of micro-batch");
  return 0;
}
