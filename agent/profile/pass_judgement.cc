#include "agent/profile/pass_judgement.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/base/counted.h"
#include "runtime/base/quantile.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// What AdamW reads and writes of a parameter.
constexpr double kUpdateBytesPerParameter = 32;
// What a forward and a backward pass read and write of a parameter and its gradient.
constexpr double kPassBytesPerParameter = 16;

constexpr double kMostGrowthOfAWindow = 1.3;
constexpr double kLeastRatio = 0.7, kMostRatio = 6;  // backward over forward
constexpr double kMostRatioChange = 2;               // from the middle of all sizes
constexpr double kMostOverRoofline = 10;
// Less work than this is overhead.
constexpr double kLeastFlops = 1e9;
// Blocks that take less of a layer's time are of no account.
constexpr double kOfAccount = 0.05;

double Whole(const MeasuredPass& pass) { return pass.forward_seconds + pass.backward_seconds; }

const MeasuredPass& PassOf(const MicroBatchTimes& times, TimedBlock block) {
  return block == TimedBlock::kEmbedding ? times.embedding
         : block == TimedBlock::kLayer   ? times.layer
                                         : times.head;
}

const char* NameOf(TimedBlock block) {
  return block == TimedBlock::kEmbedding ? "the embedding"
         : block == TimedBlock::kLayer   ? "a layer"
                                         : "the head";
}

// The judgement of one kind of block.
class Judge {
 public:
  Judge(const std::vector<MicroBatchTimes>& sizes, const ModelWork& work, TimedBlock block)
      : sizes_(sizes), work_(work), block_(block) {
    for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
      if (!sizes[i].extrapolated && Whole(PassOf(sizes[i], block)) >= kOfAccount * Whole(sizes[i].layer))
        judged_.push_back(i);
    }
  }

  std::vector<TimingDoubt> Run(double best_flops_per_second) {
    CompareNeighbours();
    if (block_ == TimedBlock::kLayer) CompareRatios();
    HoldAgainstRoofline(best_flops_per_second);
    return std::move(doubts_);
  }

 private:
  const MeasuredPass& Pass(int index) const { return PassOf(sizes_[index], block_); }
  int Windows(int index) const { return sizes_[index].micro_batch_sequences; }

  void Doubt(int index, std::string why) {
    for (const TimingDoubt& doubt : doubts_) {
      if (doubt.index == index) return;
    }
    doubts_.push_back({index, block_, std::move(why)});
  }

  void CompareNeighbours() {
    for (size_t k = 1; k < judged_.size(); ++k) {
      const int small = judged_[k - 1], large = judged_[k];
      const double before = Whole(Pass(small)), after = Whole(Pass(large));
      const double noise = Pass(small).spread + Pass(large).spread;
      if (after * (1 + 0.05 + noise) < before) {
        Doubt(small,
              absl::StrFormat("%s takes %.3g ms for %s and %.3g ms for %d", NameOf(block_), 1e3 * before,
                              Counted(Windows(small), "window"), 1e3 * after, Windows(large)));
      } else if (after / Windows(large) > before / Windows(small) * (kMostGrowthOfAWindow + noise)) {
        Doubt(large, absl::StrFormat("%s takes %.3g ms a window with %s and %.3g ms with %d", NameOf(block_),
                                     1e3 * after / Windows(large), Counted(Windows(large), "window"),
                                     1e3 * before / Windows(small), Windows(small)));
      }
    }
  }

  void CompareRatios() {
    std::vector<double> ratios;
    for (const int i : judged_) ratios.push_back(Pass(i).backward_seconds / Pass(i).forward_seconds);
    if (ratios.empty()) return;
    const double middle = Median(ratios);
    for (size_t k = 0; k < judged_.size(); ++k) {
      const double ratio = ratios[k];
      const bool apart =
          judged_.size() >= 3 && (ratio > kMostRatioChange * middle || ratio * kMostRatioChange < middle);
      if (!apart && ratio >= kLeastRatio && ratio <= kMostRatio) continue;
      Doubt(judged_[k],
            absl::StrFormat("%s's backward takes %.3g times its forward with %s%s", NameOf(block_), ratio,
                            Counted(Windows(judged_[k]), "window"),
                            apart ? absl::StrFormat(", %.3g times with others", middle) : std::string()));
    }
  }

  void HoldAgainstRoofline(double best_flops_per_second) {
    if (block_ == TimedBlock::kEmbedding || best_flops_per_second <= 0) return;
    const PassWork& work = block_ == TimedBlock::kLayer ? work_.layer : work_.head;
    for (const int i : judged_) {
      const double flops = work.flops * Windows(i);
      if (flops < kLeastFlops) continue;
      double least_seconds = flops / best_flops_per_second;
      if (work_.bytes_per_second > 0) least_seconds += work.bytes / work_.bytes_per_second;
      const double seconds = Whole(Pass(i));
      if (seconds <= kMostOverRoofline * least_seconds) continue;
      Doubt(i, absl::StrFormat("%s with %s takes %.3g ms, %.3g ms at the best rates seen", NameOf(block_),
                               Counted(Windows(i), "window"), 1e3 * seconds, 1e3 * least_seconds));
    }
  }

  const std::vector<MicroBatchTimes>& sizes_;
  const ModelWork& work_;
  const TimedBlock block_;
  std::vector<int> judged_;  // indices into sizes_
  std::vector<TimingDoubt> doubts_;
};

}  // namespace

double MicroBatchTimes::spread(int layers) const {
  const double whole = Whole(embedding) + layers * Whole(layer) + Whole(head);
  double widest = 0;
  for (const auto& [pass, count] :
       {std::pair(&embedding, 1), std::pair(&layer, layers), std::pair(&head, 1)}) {
    if (count * Whole(*pass) >= kOfAccount * whole) widest = std::max(widest, pass->spread);
  }
  return widest;
}

ModelWork ModelWorkOf(const TrainingShape& shape, double update_seconds_per_parameter) {
  const ModelConfig& model = shape.model;
  const double layer = static_cast<double>(SegmentElements(model, SegmentOfBlock(BlockOfLayer(0))));
  const double head = static_cast<double>(model.vocabulary) * model.hidden;
  ModelWork work;
  const auto flops = [&](BlockId block) {
    const BlockWork of_block = WorkOf(model, block, 1, shape.sequence);
    return of_block.forward.flops + of_block.backward().flops;
  };
  work.layer = {flops(BlockOfLayer(0)), kPassBytesPerParameter * layer};
  work.head = {flops(model.head_block()), kPassBytesPerParameter * head};
  if (update_seconds_per_parameter > 0)
    work.bytes_per_second = kUpdateBytesPerParameter / update_seconds_per_parameter;
  return work;
}

std::vector<TimingDoubt> DoubtsOf(const std::vector<MicroBatchTimes>& sizes, const ModelWork& work) {
  double best_flops_per_second = 0;
  for (const MicroBatchTimes& times : sizes) {
    if (times.extrapolated) continue;
    for (const auto& [pass, flops] :
         {std::pair(&times.layer, work.layer.flops), std::pair(&times.head, work.head.flops)}) {
      if (Whole(*pass) > 0)
        best_flops_per_second =
            std::max(best_flops_per_second, flops * times.micro_batch_sequences / Whole(*pass));
    }
  }
  std::vector<TimingDoubt> doubts;
  for (const TimedBlock block : {TimedBlock::kEmbedding, TimedBlock::kLayer, TimedBlock::kHead}) {
    std::vector<TimingDoubt> more = Judge(sizes, work, block).Run(best_flops_per_second);
    doubts.insert(doubts.end(), more.begin(), more.end());
  }
  return doubts;
}

}  // namespace medley
