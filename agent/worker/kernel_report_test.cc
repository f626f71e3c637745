#include "agent/worker/kernel_report.h"

#include <catch2/catch.hpp>
#include <set>

#include "kernels/reference/reference_backend.h"
#include "kernels/skeleton/skeleton_backend.h"
#include "kernels/skeleton/skeleton_queue.h"
#include "runtime/device/candidate_ops.h"

namespace medley {
namespace {

const v1::KernelChoice& ChoiceOf(const v1::DeviceKernels& report, const std::string& op,
                                 const std::string& form = "", const std::string& dtype = "f32") {
  for (const v1::KernelChoice& choice : report.choices()) {
    if (choice.op() == op && choice.form() == form && choice.dtype() == dtype) return choice;
  }
  FAIL("no " << op << " (" << form << ") in " << dtype);
  return report.choices(0);
}

Device Open(const Backend& backend) {
  return *backend.open({.name = "test", .backend = backend.name, .cores = {0}, .memory_limit = MiB(1)});
}

TEST_CASE("the report names the candidates, who takes each op, and why those before did not") {
  Device device = Open(SkeletonBackend());
  const v1::DeviceKernels report = DescribeKernels(device, "skeleton");
  CHECK(report.failure() == "");
  CHECK(report.description() == "skeleton");
  REQUIRE(report.candidates_size() == 2);
  CHECK(report.candidates(0) == "skeleton");
  CHECK(report.candidates(1) == "reference on the host");
  CHECK(ChoiceOf(report, "Add").chosen() == "skeleton");
  CHECK(ChoiceOf(report, "Add").declined_size() == 0);
  const v1::KernelChoice& fill = ChoiceOf(report, "Fill");
  CHECK(fill.chosen() == "reference on the host");
  REQUIRE(fill.declined_size() == 1);
  CHECK(fill.declined(0).candidate() == "skeleton");
  CHECK(fill.declined(0).reason() == "no kernel");
}

TEST_CASE("every op is in the report, its plain form first, and none fails, in 1 MiB of memory") {
  Device device = Open(ReferenceBackend());
  const v1::DeviceKernels report = DescribeKernels(device, "reference");
  CHECK(report.failure() == "");
  std::set<std::string> ops;
  for (const v1::KernelChoice& choice : report.choices()) {
    CAPTURE(choice.op(), choice.form());
    CHECK(choice.failure() == "");
    CHECK(choice.chosen() == "reference");
    const bool is_first = ops.insert(choice.op()).second;
    CHECK((!is_first || choice.form() == ""));
  }
  CHECK(ops.size() == kOpKinds);
  CHECK(device.queue->allocated() == Bytes{0});
}

TEST_CASE("ops with a precision are asked in bf16 where the device computes it, and only there") {
  Device device = Open(ReferenceBackend());
  const auto in_bf16 = [&] {
    std::set<std::string> ops;
    const v1::DeviceKernels report = DescribeKernels(device, "reference");
    for (const v1::KernelChoice& choice : report.choices()) {
      if (choice.dtype() == "bf16") ops.insert(choice.op());
    }
    return ops;
  };
  CHECK(in_bf16() == std::set<std::string>{"AttentionBackward", "AttentionForward", "HeadGradient",
                                           "HeadLoss", "HeadStatistics", "Matmul"});
  device.computes = {};
  CHECK(in_bf16().empty());
}

TEST_CASE("an op that nobody takes has no kernel and says why; the others are asked all the same") {
  Device device{.queue = std::make_unique<SkeletonQueue>(MiB(1))};
  auto ops = std::make_unique<CandidateOps>();
  ops->Append("lazy", std::make_unique<DecliningOps>());
  device.candidates = ops.get();
  device.ops = std::move(ops);
  const v1::DeviceKernels report = DescribeKernels(device, "test");
  CHECK(report.failure() == "");
  CHECK(ChoiceOf(report, "Fill").chosen() == "");
  CHECK(ChoiceOf(report, "Fill").failure() == "Fill: no candidate takes it: lazy: no kernel");
}

// Its matmul is accepted and fails later.
class FailingMatmul final : public DecliningOps {
 public:
  explicit FailingMatmul(SkeletonQueue& queue) : queue_(queue) {}
  absl::Status Matmul(const MatmulArgs&) override {
    return queue_.Submit([] { return absl::InternalError("the driver is on fire"); });
  }

 private:
  SkeletonQueue& queue_;
};

TEST_CASE("a device that fails ends the report, with the op and the device's words") {
  auto queue = std::make_unique<SkeletonQueue>(MiB(1));
  auto ops = std::make_unique<FailingMatmul>(*queue);
  Device device{.queue = std::move(queue), .ops = std::move(ops)};
  const v1::DeviceKernels report = DescribeKernels(device, "test");
  CHECK(report.failure() == "Matmul: the driver is on fire");
  REQUIRE(report.choices_size() == 1);
  CHECK(report.choices(0).chosen() == "test");
  CHECK(report.choices(0).failure() == "the driver is on fire");
}

}  // namespace
}  // namespace medley
