#include "agent/profile/block_timer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/profile/pass_samples.h"
#include "agent/profile/recomputed_part.h"
#include "agent/profile/sized_blocks.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// A load that others put on the processor needs all the rounds there are, to be known well.
constexpr double kSteadySlowdown = 1.02;
// Times that doubtful sizes are measured anew.
constexpr int kMostRetrials = 2;

class BlockTimer {
 public:
  BlockTimer(Device& device, const TrainingShape& shape, Precision precision, const std::vector<int>& sizes,
             const TimingLimits& limits)
      : device_(device),
        shape_(shape),
        precision_(precision),
        sizes_(sizes),
        limits_(limits),
        blocks_(device, shape, precision) {}

  absl::StatusOr<DeviceTimes> Run() {
    DeviceTimes times;
    RETURN_IF_ERROR(Prepare(times));
    RETURN_IF_ERROR(TimeRounds(blocks_.all(), limits_.most_rounds, limits_.most_seconds));
    if (!DoubtOfSlowdown(ForeignSlowdown(rounds_)).empty()) {
      // It may have been a compiler that has ended meanwhile.
      rounds_.clear();
      for (const std::unique_ptr<SizedBlock>& block : blocks_.all()) block->samples = {};
      RETURN_IF_ERROR(TimeUpdate(times));
      RETURN_IF_ERROR(TimeRounds(blocks_.all(), limits_.most_rounds, limits_.most_seconds));
    }
    RETURN_IF_ERROR(TimeDoubtfulAgain(times));
    times.by_micro_batch = Results();
    RETURN_IF_ERROR(TimeRecomputing(times.by_micro_batch));
    const double slowdown = ForeignSlowdown(rounds_);
    times.update_seconds_per_parameter *= slowdown;
    times.norm_seconds_per_parameter *= slowdown;
    for (MicroBatchTimes& size : times.by_micro_batch) size.doubt = DoubtOfSlowdown(slowdown);
    for (const TimingDoubt& doubt :
         DoubtsOf(times.by_micro_batch, ModelWorkOf(shape_, times.update_seconds_per_parameter))) {
      std::string& text = times.by_micro_batch[doubt.index].doubt;
      absl::StrAppend(&text, text.empty() ? "" : "; ", doubt.why);
    }
    times.workspace = workspace_;
    return times;
  }

 private:
  // Finds out which sizes of each block are measured, the smallest first, so that what the ops hold by then is what a
  // device needs that has no larger ones.
  absl::Status Prepare(DeviceTimes& times) {
    std::map<TimedBlock, const SizedBlock*> last;  // of each block that goes on
    for (const TimedBlock block : {TimedBlock::kEmbedding, TimedBlock::kHead, TimedBlock::kLayer})
      last[block] = nullptr;
    const size_t blocks = last.size();
    for (int index = 0; index < static_cast<int>(sizes_.size()); ++index) {
      for (auto at = last.begin(); at != last.end();) {
        ASSIGN_OR_RETURN(
            const SizedBlock* const sized,
            blocks_.Add(at->first, index, sizes_[index], at->second, limits_.longest_repetition_seconds));
        at->second = sized;
        at = sized == nullptr ? last.erase(at) : std::next(at);
      }
      if (index == 0) RETURN_IF_ERROR(TimeUpdate(times));  // what that needs is needed with any size
      NoteWorkspace();
      workspaces_.push_back(last.size() == blocks ? workspace_ : Bytes{0});
    }
    return absl::OkStatus();
  }

  // One sample: the mean of short passes that follow each other.
  absl::Status TakeTurn(SizedBlock& block) {
    RETURN_IF_ERROR(blocks_.Open(block));
    BlockRepetition sum;
    int count = 0;
    while (count == 0 || sum.all().seconds < limits_.turn_seconds) {
      ASSIGN_OR_RETURN(const BlockRepetition repetition, block.shard->TimeOnce());
      sum += repetition;
      ++count;
    }
    rounds_.back() += sum.all();
    block.samples.Add(sum, count * block.layers);
    return absl::OkStatus();
  }

  template <typename Blocks>
  absl::Status TimeRounds(const Blocks& blocks, int most_rounds, double most_seconds) {
    const absl::Time start = Now();
    for (int round = 0; round < most_rounds; ++round) {
      const double spent = absl::ToDoubleSeconds(Now() - start);
      if (round >= limits_.fewest_rounds) {
        if (spent >= most_seconds) return absl::OkStatus();
        const bool steady =
            WidestSpread() <= limits_.enough_spread && ForeignSlowdown(rounds_) < kSteadySlowdown;
        if (spent >= limits_.enough_seconds && steady) return absl::OkStatus();
      }
      rounds_.emplace_back();
      for (const auto& block : blocks) RETURN_IF_ERROR(TakeTurn(*block));
    }
    return absl::OkStatus();
  }

  double WidestSpread() const {
    double widest = 0;
    for (const MicroBatchTimes& times : Results()) {
      if (!times.extrapolated) widest = std::max(widest, times.spread(shape_.model.layers));
    }
    return widest;
  }

  absl::Status TimeDoubtfulAgain(const DeviceTimes& times) {
    for (int retrial = 0; retrial < kMostRetrials; ++retrial) {
      std::vector<SizedBlock*> doubtful;
      for (const TimingDoubt& doubt :
           DoubtsOf(Results(), ModelWorkOf(shape_, times.update_seconds_per_parameter))) {
        for (const std::unique_ptr<SizedBlock>& sized : blocks_.all()) {
          if (sized->block != doubt.block || sized->index != doubt.index) continue;
          sized->samples = {};
          sized->shard = nullptr;  // other memory may be the cure
          doubtful.push_back(sized.get());
        }
      }
      if (doubtful.empty()) return absl::OkStatus();
      RETURN_IF_ERROR(
          TimeRounds(doubtful, limits_.most_rounds / kMostRetrials, limits_.most_seconds / kMostRetrials));
    }
    return absl::OkStatus();
  }

  std::vector<MicroBatchTimes> Results() const {
    std::vector<MicroBatchTimes> results;
    for (int index = 0; index < static_cast<int>(sizes_.size()); ++index) {
      MicroBatchTimes times{.micro_batch_sequences = sizes_[index], .workspace = workspaces_[index]};
      times.embedding = Result(TimedBlock::kEmbedding, index, times.extrapolated);
      times.layer = Result(TimedBlock::kLayer, index, times.extrapolated);
      times.head = Result(TimedBlock::kHead, index, times.extrapolated);
      results.push_back(std::move(times));
    }
    return results;
  }

  // Sets `extrapolated` where the size was not measured.
  MeasuredPass Result(TimedBlock block, int index, bool& extrapolated) const {
    const double slowdown = ForeignSlowdown(rounds_);
    std::vector<std::pair<int, MeasuredPass>> measured;  // sizes, ascending
    for (const std::unique_ptr<SizedBlock>& sized : blocks_.all()) {
      if (sized->block != block || sized->samples.forward.empty()) continue;
      const MeasuredPass pass = sized->samples.Pass(slowdown);
      if (sized->index == index) return pass;
      measured.emplace_back(sized->micro_batch, pass);
    }
    if (measured.empty()) return {};  // no round has been yet
    extrapolated = true;
    return Extrapolated(measured, sizes_[index]);
  }

  absl::Status TimeRecomputing(std::vector<MicroBatchTimes>& sizes) {
    blocks_.CloseAll();
    double all = 0, but_attention = 0;  // of sizes that are not measured, as of the largest that is
    for (int index = 0; index < static_cast<int>(sizes.size()); ++index) {
      if (const SizedBlock* sized = blocks_.LayerAt(index); sized != nullptr) {
        const auto part = [&](Recompute recompute) {
          return RecomputedPart(device_, shape_, precision_, blocks_.BlocksOf(*sized), sized->micro_batch,
                                recompute, limits_.turn_seconds);
        };
        ASSIGN_OR_RETURN(all, part(Recompute::kLayers));
        ASSIGN_OR_RETURN(but_attention, part(Recompute::kAllButAttention));
      }
      MeasuredPass& layer = sizes[index].layer;
      layer.recompute_seconds = all * layer.forward_seconds;
      layer.recompute_but_attention_seconds = std::min(all, but_attention) * layer.forward_seconds;
    }
    return absl::OkStatus();
  }

  // Update and norm, and what the ops keep for a parameter, on layers.
  absl::Status TimeUpdate(DeviceTimes& times) {
    SizedBlock& layers = *blocks_.LayerAt(0);
    RETURN_IF_ERROR(blocks_.Open(layers));
    TimedShard& timed = *layers.shard;
    const double elements = static_cast<double>(timed.shard().arena().layout().elements);
    device_.ops->ForgetParameters();  // the copies of other shards
    RETURN_IF_ERROR(timed.TimeOnce().status());
    NoteWorkspace();
    times.copy_bytes_per_parameter =
        static_cast<double>(device_.ops->held().copies.value) /
        static_cast<double>(MultipliedElements(shape_.model, timed.shard().options().chunks));
    std::vector<PassSample> update, norm;
    for (int i = 0; i < 2 * limits_.fewest_rounds; ++i) {
      ASSIGN_OR_RETURN(norm.emplace_back(), timed.TimeNorms());
      ASSIGN_OR_RETURN(update.emplace_back(), timed.TimeUpdate(i + 1));
    }
    update.erase(update.begin());  // the first touches the optimizer's state for the first time
    times.update_seconds_per_parameter = MiddleOf(update).seconds / elements;
    times.norm_seconds_per_parameter = MiddleOf(norm).seconds / elements;
    return absl::OkStatus();
  }

  void NoteWorkspace() { workspace_ = std::max(workspace_, device_.ops->held().scratch); }

  Device& device_;
  const TrainingShape shape_;
  const Precision precision_;
  const std::vector<int>& sizes_;
  const TimingLimits limits_;
  SizedBlocks blocks_;              // by size, block
  std::vector<PassSample> rounds_;  // sums of their turns
  Bytes workspace_;                 // the most that the ops have held
  std::vector<Bytes> workspaces_;   // likewise, after each size; 0: some block was not measured
};

}  // namespace

absl::StatusOr<DeviceTimes> TimeBlocks(Device& device, const TrainingShape& shape, Precision precision,
                                       const std::vector<int>& micro_batch_sizes,
                                       const TimingLimits& limits) {
  return BlockTimer(device, shape, precision, micro_batch_sizes, limits).Run();
}

}  // namespace medley
