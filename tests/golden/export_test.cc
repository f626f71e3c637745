#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/ir/model/parameters.h"
#include "tests/golden/golden_job.h"

namespace medley {
namespace {

// A checkpoint of what `folder` holds, without a step of training.
CheckpointManifest CheckpointOf(const std::string& folder, const std::string& root) {
  const HuggingFaceModel model = *HuggingFaceModel::Open(folder);
  CheckpointManifest manifest = {
      .job = "golden", .model = model.config(), .data = {.sequence = 16, .global_batch_sequences = 4}};
  for (SegmentId segment = 0; segment < SegmentCount(model.config()); ++segment) {
    std::vector<float> values(static_cast<size_t>(SegmentElements(model.config(), segment)));
    REQUIRE(model.ReadSegment(segment, absl::MakeSpan(values)).ok());
    const std::vector<float> moments(values.size());
    const auto record =
        WriteSegment(CheckpointDirectory(root, 0), segment,
                     CutSegment(model.config(), segment, absl::Span<const float>(values), moments, moments));
    REQUIRE(record.status().ToString() == "OK");
    manifest.files.push_back(*record);
  }
  REQUIRE(CommitManifest(root, manifest).ToString() == "OK");
  return *ReadManifest(CheckpointDirectory(root, 0));
}

bool PythonFindsTheSame(const std::string& a, const std::string& b) {
  return std::system(("python3 tests/golden/compare_models.py " + a + " " + b).c_str()) == 0;
}

TEST_CASE("a model that went through a checkpoint is exported as it came, to a reader that is not ours") {
  const std::string folder = GENERATE(as<std::string>(), kGoldenGpt2, kGoldenLlama, kGoldenTiedLlama);
  CAPTURE(folder);
  const TemporaryDirectory directory;
  const CheckpointManifest manifest = CheckpointOf(folder, directory.File("checkpoints"));
  REQUIRE(ExportHuggingFace(manifest, directory.File("export")).ToString() == "OK");
  CHECK(PythonFindsTheSame(folder, directory.File("export")));
}

TEST_CASE("that reader tells one model from another") {
  CHECK(PythonFindsTheSame(kGoldenLlama, kGoldenLlama));
  CHECK_FALSE(PythonFindsTheSame(kGoldenLlama, std::string(kGoldenTiedLlama) + " > /dev/null"));
}

}  // namespace
}  // namespace medley
