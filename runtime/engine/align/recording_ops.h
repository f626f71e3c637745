#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "runtime/device/device_queue.h"
#include "runtime/device/uniform_ops.h"
#include "runtime/engine/align/captured_call.h"

namespace medley {

// How much is captured.
struct CaptureLimits {
  int64_t calls_of_a_shape = 4;  // in each step, of one op with one shape: so many parameters' or layers'
  Bytes one_call = GiB(1);
  Bytes one_step = GiB(1);  // what a step does not use, later ones may
  // AdamW, Fill, Scale and SquaredNorm go over whole arenas, every element by itself: of longer calls, so
  // many elements are kept, and the call is captured as one of that length.
  int64_t elements_of_arena_calls = 1 << 20;
};

// What became of the calls. Each call is counted once, and `shortened` among the captured ones.
struct CaptureCounts {
  int64_t calls = 0;
  int64_t captured = 0;
  Bytes captured_bytes;
  int64_t shortened = 0;  // to elements_of_arena_calls
  // Left out: the same op on the same shape and parameter was captured earlier in the step (another
  // micro-batch);
  int64_t repeats = 0;
  int64_t over_calls_of_a_shape = 0, over_one_call = 0, over_steps = 0;  // that limit
  int64_t impossible = 0;  // it does not pass CheckCall, so that it cannot be replayed
};

// Hands every op on to another device's ops, and keeps what some of the calls read.
//
// Before a call is handed on, the contents of the slices that it reads or updates are downloaded; the queue
// is waited for. What is captured is given to `sink`, whose error the op then returns. Thread: as Ops.
class RecordingOps final : public UniformOps<RecordingOps> {
 public:
  // The name of the parameter that a slice lies in, or belongs to as its gradient or moment; "" if it is
  // none.
  using ParameterAt = std::function<std::string(const Slice&)>;
  using Sink = std::function<absl::Status(const CapturedCall&)>;

  // `inner`'s queue is `queue`, which outlives it.
  RecordingOps(std::unique_ptr<Ops> inner, DeviceQueue& queue, const CaptureLimits& limits, Sink sink)
      : inner_(std::move(inner)), queue_(queue), limits_(limits), sink_(std::move(sink)) {}

  // Without one, positions are empty.
  void SetParameterAt(ParameterAt parameter_at) { parameter_at_ = std::move(parameter_at); }
  // Calls before the first step are handed on, neither counted nor captured.
  void BeginStep(int64_t step);
  // The end of the last step: as before the first.
  void EndSteps() { step_ = 0; }

  const CaptureCounts& counts() const { return counts_; }

  template <typename Args>
  absl::Status Submit(const Args& args) {
    if (step_ > 0) {
      if (absl::Status captured = Consider(AnyArgs(args)); !captured.ok()) return captured;
    }
    return RunOp(*inner_, args);
  }
  void ParametersChanged() override { inner_->ParametersChanged(); }
  void ForgetParameters() override { inner_->ForgetParameters(); }
  void UseScratch(const OpScratch& scratch) override { inner_->UseScratch(scratch); }
  OpHoldings held() const override { return inner_->held(); }

 private:
  absl::Status Consider(AnyArgs args);
  std::string PositionOf(const OpSlices& operands);
  // Null: take it. Otherwise the count of the reason to leave it out.
  int64_t* ReasonAgainst(const OpSlices& operands, const std::set<std::string>& captured_positions,
                         const std::string& position);
  absl::Status Fill(CapturedCall& call, const OpSlices& operands);

  const std::unique_ptr<Ops> inner_;
  DeviceQueue& queue_;
  const CaptureLimits limits_;
  const Sink sink_;
  ParameterAt parameter_at_;
  int64_t step_ = 0;
  CaptureCounts counts_;
  std::string position_;  // of the newest call that had one
  Bytes allowance_;       // of all steps begun, together
  // Positions by op, shape.
  std::map<std::pair<OpKind, std::string>, std::set<std::string>> captured_this_step_;
};

}  // namespace medley
