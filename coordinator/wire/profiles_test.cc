// The files of profiles/ hold to their rules and say what can be.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "coordinator/roofline/step_prediction.h"
#include "coordinator/wire/device_kind_codec.h"

namespace medley {
namespace {

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("profiles")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Of Llama 7B, fused attention, on one device.
TrainingRun Llama() {
  TrainingRun run;
  run.shape.model = {.layers = 32,
                     .hidden = 4096,
                     .heads = 32,
                     .feed_forward = 11008,
                     .vocabulary = 32000,
                     .context = 2048,
                     .family = ModelFamily::kLlama};
  run.shape.sequence = 2048;
  run.shape.global_batch_sequences = 1;
  run.fused_attention = true;
  return run;
}

TEST_CASE("every profile is read, is of the kind that it is named for, and has been fitted and judged") {
  REQUIRE(Files().size() >= 9);
  const std::string file = GENERATE(from_range(Files()));
  CAPTURE(file);
  const absl::StatusOr<DeviceKindProfile> profile = ReadDeviceKind(file);
  INFO(profile.status());
  REQUIRE(profile.ok());
  CHECK(profile->figures.kind == std::filesystem::path(file).stem().string());
  CHECK_FALSE(profile->by_software.empty());
  for (const auto& [software, learnt] : profile->by_software) {
    CAPTURE(software);
    CHECK(learnt.error_mean > 0);
    CHECK(learnt.error_mean < 0.2);
    // Between a tenth of the peak and all of it.
    const CalibratedDevice device{profile->figures, learnt.calibration};
    const RankWork work = LayerWork(Llama());
    const double rate =
        (work.forward.Flops() + work.backward.Flops()) / RooflineTimes(device, Llama()).layer.Seconds();
    CHECK(rate < profile->figures.matmul_flops_per_second);
    CHECK(rate > 0.1 * profile->figures.matmul_flops_per_second);
  }
}

TEST_CASE("a profile that is not there is named") {
  CHECK(ReadDeviceKind("profiles/no-such-kind.yaml").status().message().find("profiles/no-such-kind.yaml") !=
        absl::string_view::npos);
}

}  // namespace
}  // namespace medley
