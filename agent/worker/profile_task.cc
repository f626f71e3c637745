#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/profile/block_timer.h"
#include "agent/profile/layer_in_turns.h"
#include "agent/profile/matmul_peak.h"
#include "agent/worker/task.h"
#include "comm/staging/measure_copies.h"
#include "runtime/base/current_phase.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/version.h"
#include "runtime/device/device_group.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/wire/job_codec.h"

namespace medley {
namespace {

constexpr size_t kMostDoubtBytes = 1000;

class ProfileWorkerTask final : public WorkerTask {
 public:
  // together_seconds: 0 alone, else in `turns` with the other devices of the host.
  ProfileWorkerTask(Device device, TrainingSpec spec, std::vector<int> sizes, double together_seconds,
                    const HostTurns& turns, const WorkerSite& site)
      : device_(std::move(device)),
        spec_(std::move(spec)),
        sizes_(std::move(sizes)),
        together_seconds_(together_seconds),
        turns_(turns),
        site_(site) {}

  Bytes allocated() const override { return device_.queue->allocated(); }

  absl::Status Run(const std::vector<std::string>&,
                   const std::function<void(const v1::WorkerEvent&)>& report) override {
    CurrentPhase::OfProcess().Enter("measuring the passes of the blocks");
    v1::WorkerEvent event;
    v1::DeviceProfile& profile = *event.mutable_profile();
    profile.set_device_kind(site_.device_kind);
    RETURN_IF_ERROR(together_seconds_ > 0 ? MeasureTogether(profile, report) : MeasureAlone(profile));
    profile.set_measured_at_seconds(UnixSecondsNow());
    FillProvenance(*profile.mutable_measured_with());
    report(event);
    return absl::OkStatus();
  }

 private:
  absl::Status MeasureAlone(v1::DeviceProfile& profile) {
    ASSIGN_OR_RETURN(const DeviceTimes times, TimeBlocks(device_, spec_.shape, spec_.precision, sizes_));
    for (const MicroBatchTimes& t : times.by_micro_batch) {
      v1::BlockPassTimes& out = *profile.add_times();
      out.set_micro_batch_sequences(t.micro_batch_sequences);
      out.set_embedding_forward_seconds(t.embedding.forward_seconds);
      out.set_embedding_backward_seconds(t.embedding.backward_seconds);
      out.set_layer_forward_seconds(t.layer.forward_seconds);
      out.set_layer_backward_seconds(t.layer.backward_seconds);
      out.set_layer_weight_gradient_seconds(t.layer.weight_gradient_seconds);
      out.set_layer_recompute_seconds(t.layer.recompute_seconds);
      out.set_layer_recompute_but_attention_seconds(t.layer.recompute_but_attention_seconds);
      out.set_layer_split_seconds(t.layer.split_seconds);
      out.set_head_forward_seconds(t.head.forward_seconds);
      out.set_head_backward_seconds(t.head.backward_seconds);
      out.set_workspace_bytes(static_cast<uint64_t>(t.workspace.value));
      out.set_spread(t.spread(spec_.shape.model.layers));
      out.set_doubt(t.doubt.substr(0, kMostDoubtBytes));
    }
    profile.set_update_seconds_per_parameter(times.update_seconds_per_parameter);
    profile.set_norm_seconds_per_parameter(times.norm_seconds_per_parameter);
    profile.set_workspace_bytes(static_cast<uint64_t>(times.workspace.value));
    profile.set_copy_bytes_per_parameter(times.copy_bytes_per_parameter);
    CurrentPhase::OfProcess().Enter("measuring copies to and from the device");
    const ModelConfig& model = spec_.shape.model;
    const Bytes layer{4 * SegmentElements(model, SegmentOfBlock(BlockOfLayer(0)))};
    // Only plans with layers in host memory, or units of devices with memory of their own, need them: without them
    // it is a profile all the same.
    const absl::StatusOr<LayerCopySpeeds> copies = MeasureLayerCopies(*device_.queue, layer);
    if (copies.ok()) FillCopies(*copies, profile);
    CurrentPhase::OfProcess().Enter("measuring products of large matrices");
    // For figures alone, and the last that is measured.
    profile.set_matmul_flops_per_second(MeasureMatmulPeak(device_, spec_.precision).value_or(0));
    return absl::OkStatus();
  }

  void FillCopies(const LayerCopySpeeds& copies, v1::DeviceProfile& profile) {
    profile.set_fetch_bytes_per_second(copies.fetch_bytes_per_second);
    profile.set_store_bytes_per_second(copies.store_bytes_per_second);
    profile.set_has_own_memory(!copies.host_reaches);
    const absl::StatusOr<GroupLibrary*> library = device_.queue->groups();
    if (library.ok()) profile.set_group_library((*library)->name());
  }

  absl::Status MeasureTogether(v1::DeviceProfile& profile,
                               const std::function<void(const v1::WorkerEvent&)>& report) {
    ASSIGN_OR_RETURN(const SharedTimes times, TimeLayerInTurns(device_, spec_.shape, spec_.precision,
                                                               sizes_.front(), together_seconds_, turns_));
    if (turns_.turn_seconds > 0) {  // a coordinator that knows of turns
      v1::WorkerEvent event;
      v1::SharedTurns& turns = *event.mutable_shared_turns();
      turns.mutable_pass_ratios()->Add(times.pass_ratios.begin(), times.pass_ratios.end());
      turns.mutable_update_ratios()->Add(times.update_ratios.begin(), times.update_ratios.end());
      report(event);
    }
    v1::BlockPassTimes& out = *profile.add_times();
    out.set_micro_batch_sequences(sizes_.front());
    out.set_layer_forward_seconds(times.layer.forward_seconds);
    out.set_layer_backward_seconds(times.layer.backward_seconds);
    out.set_spread(times.layer.spread);
    return absl::OkStatus();
  }

  void FillProvenance(v1::Provenance& with) const {
    char host[256] = {};
    gethostname(host, sizeof(host) - 1);
    with.set_host(host);
    const DeviceProvenance& provenance = device_.provenance;
    with.set_hardware(provenance.hardware.empty() ? device_.queue->name() : provenance.hardware);
    with.set_driver(provenance.driver);
    with.mutable_libraries()->Add(provenance.libraries.begin(), provenance.libraries.end());
    with.set_medley_version(kMedleyVersion);
  }

  Device device_;
  const TrainingSpec spec_;
  const std::vector<int> sizes_;
  const double together_seconds_;
  const HostTurns turns_;
  const WorkerSite site_;
};

// The model as a rank with `share` of it sees it.
absl::StatusOr<ModelConfig> DecodeSharedModel(const v1::ModelShare& share, const ModelConfig& model) {
  const ModelShare whole = WholeModel(model);
  const bool by_queries = share.query_heads() > 0;
  for (const auto& [field, has, most] :
       {by_queries ? std::tuple("query_heads", share.query_heads(), model.heads)
                   : std::tuple("key_value_heads", share.key_value_heads(), whole.key_value_heads.size()),
        std::tuple("feed_forward", share.feed_forward(), whole.feed_forward.size()),
        std::tuple("vocabulary", share.vocabulary(), whole.vocabulary.size())}) {
    if (has >= 1 && has <= static_cast<uint32_t>(most)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("profile.share.", field, ": ", has, ", must be 1 to ", most, ", what the model has"));
  }
  const IndexRange query_heads = {0, static_cast<int>(share.query_heads())};
  if (by_queries && !AttendAlike(model, query_heads)) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile.share.query_heads: ", share.query_heads(), ", must be up to ",
                     model.heads / model.key_value_head_count(), ", of one key-value head, or a multiple"));
  }
  const auto first = [](uint32_t count) { return IndexRange{0, static_cast<int>(count)}; };
  return LocalModel(model, {first(share.key_value_heads()), first(share.feed_forward()),
                            first(share.vocabulary()), query_heads});
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareProfile(const v1::PrepareRequest& request,
                                                           const WorkerSite& site) {
  const v1::ProfileTask& profile = request.profile();
  std::optional<ModelConfig> config;
  if (!profile.spec().model().hugging_face().empty()) {
    ASSIGN_OR_RETURN(config, ReadModelConfig(profile.spec().model().hugging_face()));
  }
  ASSIGN_OR_RETURN(TrainingSpec spec, DecodeJobSpec(profile.spec(), "", config));
  if (profile.has_share()) {
    ASSIGN_OR_RETURN(spec.shape.model, DecodeSharedModel(profile.share(), spec.shape.model));
  }
  std::vector<int> sizes(profile.micro_batch_sizes().begin(), profile.micro_batch_sizes().end());
  if (profile.together_seconds() == 0) std::sort(sizes.begin(), sizes.end());
  const HostTurns turns = {profile.turn_seconds(), static_cast<int>(profile.devices_of_host()),
                           static_cast<int>(profile.place_on_host())};
  if (turns.turn_seconds > 0 && turns.place >= turns.devices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "profile.place_on_host: ", turns.place, ", must be below profile.devices_of_host, ", turns.devices));
  }
  ASSIGN_OR_RETURN(Device device, OpenDevice(site.device));
  return std::make_unique<ProfileWorkerTask>(std::move(device), std::move(spec), std::move(sizes),
                                             profile.together_seconds(), turns, site);
}

}  // namespace medley
