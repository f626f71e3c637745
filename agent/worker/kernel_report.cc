#include "agent/worker/kernel_report.h"

#include <vector>

#include "runtime/base/status_macros.h"
#include "runtime/device/candidate_ops.h"
#include "runtime/device/canonical_ops.h"

namespace medley {
namespace {

template <typename Args>
constexpr bool kHasPrecision = requires(Args args) { args.precision; };

class Reporter {
 public:
  Reporter(Device& device, std::string backend) : device_(device), backend_(std::move(backend)) {}

  // Every form of one op. An error of the device ends the report.
  template <typename Args>
  absl::Status Ask(const std::vector<CanonicalOp<Args>>& forms) {
    for (const CanonicalOp<Args>& op : forms) {
      RETURN_IF_ERROR(Annotate(AskOne(op.form, op.args, "f32"), NameOf(KindOf(op.args))));
      if constexpr (kHasPrecision<Args>) {
        for (const Precision precision : {Precision::kBf16, Precision::kF16}) {
          if (device_.computes.For(precision) != precision) continue;
          Args narrow = op.args;
          narrow.precision = precision;
          RETURN_IF_ERROR(Annotate(AskOne(op.form, narrow, NameOf(precision)), NameOf(KindOf(op.args))));
        }
      }
    }
    return absl::OkStatus();
  }

  v1::DeviceKernels& report() { return report_; }

 private:
  template <typename Args>
  absl::Status AskOne(const char* form, Args args, std::string_view dtype) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Buffer> operands, PlaceOperands(args, *device_.queue));
    device_.ops->ParametersChanged();
    v1::KernelChoice& choice = *report_.add_choices();
    choice.set_op(NameOf(KindOf(args)));
    choice.set_form(form);
    choice.set_dtype(std::string(dtype));
    const absl::Status submitted = Submit(args, choice);
    const absl::Status done = device_.queue->Wait(device_.queue->Record());
    if (!submitted.ok() || !done.ok()) {
      choice.set_failure(std::string((submitted.ok() ? done : submitted).message()));
    }
    return done;  // the queue's: no further op will do better
  }

  template <typename Args>
  absl::Status Submit(const Args& args, v1::KernelChoice& told) {
    if (device_.candidates == nullptr) {
      const absl::Status status = RunOp(*device_.ops, args);
      if (!absl::IsUnimplemented(status)) told.set_chosen(backend_);
      return status;
    }
    CandidateOps::Choice choice;
    const absl::Status status = device_.candidates->SubmitAndTell(args, choice);
    if (choice.chosen != nullptr) told.set_chosen(choice.chosen->name);
    for (size_t i = 0; i < choice.objections.size(); ++i) {
      v1::KernelObjection& declined = *told.add_declined();
      declined.set_candidate(device_.candidates->candidates()[i].name);
      declined.set_reason(std::string(choice.objections[i].message()));
    }
    return status;
  }

  Device& device_;
  const std::string backend_;
  v1::DeviceKernels report_;
};

absl::Status AskAll(Reporter& reporter) {
#define MEDLEY_ASK(name) RETURN_IF_ERROR(reporter.Ask(Canonical##name()));
  MEDLEY_EACH_OP(MEDLEY_ASK)
#undef MEDLEY_ASK
  return absl::OkStatus();
}

}  // namespace

v1::DeviceKernels DescribeKernels(Device& device, const std::string& backend) {
  Reporter reporter(device, backend);
  v1::DeviceKernels& report = reporter.report();
  report.set_description(device.queue->name());
  if (device.candidates == nullptr) {
    report.add_candidates(backend);
  } else {
    for (const auto& candidate : device.candidates->candidates()) report.add_candidates(candidate.name);
  }
  if (const absl::Status status = AskAll(reporter); !status.ok()) {
    report.set_failure(std::string(status.message()));
  }
  return report;
}

}  // namespace medley
