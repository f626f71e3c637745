#include "agent/supervisor/kernel_reports.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "runtime/base/clock.h"

namespace medley {
namespace {

constexpr char kFakeWorker[] = "bazel-bin/agent/supervisor/fake_worker";  // from the root of the repository
constexpr char kFakeWorkerOfTest[] = "agent/supervisor/fake_worker";      // from the runfiles of `bazel test`

// A node with a device for each variant, named after it.
KernelReports::Options NodeWith(const std::vector<std::string>& variants) {
  KernelReports::Options options{.node_name = "laptop"};
  options.worker_program = access(kFakeWorkerOfTest, X_OK) == 0 ? kFakeWorkerOfTest : kFakeWorker;
  for (const std::string& variant : variants) {
    v1::Device& device = options.devices.emplace_back();
    device.set_name("device to " + variant);
    device.set_variant(variant);
  }
  return options;
}

absl::Time Soon() { return Now() + absl::Minutes(1); }

TEST_CASE("each device is asked in a worker of its own, once") {
  KernelReports reports(NodeWith({"answer", "answer too"}));
  const v1::NodeKernels first = reports.Get(Soon());
  CHECK(first.node() == "laptop");
  CHECK(first.failure() == "");
  REQUIRE(first.devices_size() == 2);
  CHECK(first.devices(0).device() == "device to answer");
  CHECK(first.devices(1).device() == "device to answer too");
  CHECK_THAT(first.devices(0).description(), Catch::StartsWith("process "));
  CHECK(first.devices(0).description() != first.devices(1).description());
  const v1::NodeKernels second = reports.Get(Soon());
  CHECK(second.SerializeAsString() == first.SerializeAsString());
}

TEST_CASE("why a device could not be asked stands in its place; the others answer") {
  KernelReports reports(NodeWith({"die", "fail to open", "break off", "answer"}));
  const v1::NodeKernels report = reports.Get(Soon());
  REQUIRE(report.devices_size() == 4);
  CHECK(report.devices(0).device() == "device to die");
  CHECK_THAT(report.devices(0).failure(), Catch::Contains("laptop/device to die") &&
                                              Catch::Contains("signal 9") && Catch::Contains("on fire"));
  CHECK(report.devices(1).failure() == "no such accelerator");
  CHECK(report.devices(2).failure() == "Matmul: the driver is on fire");
  CHECK(report.devices(3).failure() == "");
  // What broke off is asked anew, by another process; what answered is not.
  const v1::NodeKernels again = reports.Get(Soon());
  CHECK(again.devices(2).description() != report.devices(2).description());
  CHECK(again.devices(3).description() == report.devices(3).description());
}

TEST_CASE("a device that does not answer by the deadline says so") {
  KernelReports reports(NodeWith({"hang"}));
  const v1::NodeKernels report = reports.Get(Now() + absl::Milliseconds(50));
  REQUIRE(report.devices_size() == 1);
  CHECK_THAT(report.devices(0).failure(), Catch::Contains("laptop/device to hang"));
}

TEST_CASE("callers at the same time get the same answer") {
  KernelReports reports(NodeWith({"answer"}));
  v1::NodeKernels first, second;
  std::thread other([&] { first = reports.Get(Soon()); });
  second = reports.Get(Soon());
  other.join();
  CHECK(first.SerializeAsString() == second.SerializeAsString());
}

TEST_CASE("a worker program that is not there is a failure of each device") {
  KernelReports::Options options = NodeWith({"answer"});
  options.worker_program = "/no/such/medley-worker";
  KernelReports reports(options);
  CHECK_THAT(reports.Get(Soon()).devices(0).failure(), Catch::Contains("cannot execute"));
}

}  // namespace
}  // namespace medley
