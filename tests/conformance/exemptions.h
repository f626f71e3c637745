#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/device/uniform_ops.h"

// What a device is known not to do, or to do wrongly, each with its reason; anything else that is declined or
// wrong fails the suite, and so does an entry that no longer holds.
namespace medley {

enum class ExemptionKind : uint8_t {
  kUnsupported,      // the op returns Unimplemented, or is left to the reference as the last candidate
  kExpectedFailure,  // the op runs, and a result is wrong or differs from run to run
};

struct Exemption {
  std::string device;  // as in ops_conformance_test(device = ...), or its backend alone: every variant
  ExemptionKind kind;
  OpKind op;
  std::string reason;
  std::function<bool(const void* args)> applies;  // to a call of the op with these arguments
};

template <typename Args>
bool AnyArguments(const Args&) {
  return true;
}

// An entry about those calls of the op of `Args` for which `applies` holds.
template <typename Args>
Exemption Exempt(std::string device, ExemptionKind kind, std::string reason,
                 bool (*applies)(const Args&) = AnyArguments<Args>) {
  return {std::move(device), kind, KindOf(Args{}), std::move(reason),
          [applies](const void* args) { return applies(*static_cast<const Args*>(args)); }};
}

// The one list, of every device.
const std::vector<Exemption>& Exemptions();

// The first of `list` of this kind about a call of `op` with `args` on `device`, or null. Points into `list`.
const Exemption* FindExemption(const std::vector<Exemption>& list, const std::string& device,
                               ExemptionKind kind, OpKind op, const void* args);

// Whether the device ran an op by kernels of its own or left it to the reference.
enum class RunBy : uint8_t { kOwnKernels, kFallback };

enum class Verdict : uint8_t { kRan, kDeclined, kWrong };
struct Judgement {
  Verdict verdict;
  std::string words;  // why, unless kRan
};

// What to think of `status`, which a call returned about which the list has `unsupported` (or null).
Judgement JudgeCall(const Exemption* unsupported, OpKind op, const absl::Status& status,
                    RunBy run_by = RunBy::kOwnKernels);

// Empty if the comparison of an op's results, `mismatches`, is as it should be, given the list's
// `expected_failure` (or null) about one of the calls that made them; otherwise what is wrong.
std::string JudgeResults(const Exemption* expected_failure, const std::vector<std::string>& mismatches);

}  // namespace medley
