// Manifests of checkpoints.
#include <xxhash.h>

#include <cstdio>

#include "runtime/base/files/strict_json.h"
#include "runtime/engine/checkpoint/manifest.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

// Manifests end in a checksum over all else: corrected, so that the rest is looked at too.
std::string Corrected(std::string_view text) {
  absl::StatusOr<nlohmann::json> object = ParseStrictJson(text);
  if (!object.ok() || !object->is_object()) return std::string(text);
  object->erase("xxh3_64");
  const auto handler = nlohmann::json::error_handler_t::replace;
  const std::string compact = object->dump(-1, ' ', /*ensure_ascii=*/true, handler);
  char sum[17];
  std::snprintf(sum, sizeof(sum), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(compact.data(), compact.size())));
  (*object)["xxh3_64"] = sum;
  return object->dump(-1, ' ', /*ensure_ascii=*/true, handler);
}

void Try(const std::string& text) {
  const absl::StatusOr<CheckpointManifest> manifest = ParseManifest(text);
  if (!manifest.ok()) return DemandRefusal(manifest.status());
  Accepted();
  Demand(CheckManifest(*manifest).ok(), "an accepted manifest can be one");
  const absl::StatusOr<CheckpointManifest> again = ParseManifest(ManifestText(*manifest));
  Demand(again.ok(), "an accepted manifest is written so that it can be read");
  Demand(*again == *manifest, "it is read back as it was");
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  CheckpointManifest manifest;
  manifest.job = "bible-1";
  manifest.step = 50;
  manifest.model = {
      .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 32, .vocabulary = 97, .context = 16};
  manifest.data = {
      .steps = 50, .order = DataOrder::kShuffled, .seed = 3, .sequence = 16, .global_batch_sequences = 4};
  std::vector<std::string> seeds;
  for (const ModelFamily family : {ModelFamily::kGpt2, ModelFamily::kLlama}) {
    manifest.model.family = family;
    if (family == ModelFamily::kLlama) manifest.model.rotary_scaling = RotaryScaling{};
    // As many files as the model has segments.
    manifest.files.clear();
    while (!CheckManifest(manifest).ok() && manifest.files.size() < 16) {
      const SegmentId segment = static_cast<int>(manifest.files.size());
      manifest.files.push_back({.segment = segment, .name = SegmentFileName(segment)});
    }
    seeds.push_back(ManifestText(manifest));
  }
  return seeds;
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = medley::TextOf(data, size);
  medley::Try(std::string(text));
  medley::Try(medley::Corrected(text));
  return 0;
}
