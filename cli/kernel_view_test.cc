#include "cli/kernel_view.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_split.h"

namespace medley {
namespace {

v1::KernelChoice& AddChoice(v1::DeviceKernels& device, const char* op, const char* form, const char* dtype,
                            const char* chosen) {
  v1::KernelChoice& choice = *device.add_choices();
  choice.set_op(op);
  choice.set_form(form);
  choice.set_dtype(dtype);
  choice.set_chosen(chosen);
  return choice;
}

void Decline(v1::KernelChoice& choice, const char* candidate, const char* reason) {
  v1::KernelObjection& declined = *choice.add_declined();
  declined.set_candidate(candidate);
  declined.set_reason(reason);
}

v1::DeviceKernels& AddDevice(v1::NodeKernels& node, const char* name) {
  v1::DeviceKernels& device = *node.add_devices();
  device.set_device(name);
  device.set_description("quick");
  device.add_candidates("library");
  device.add_candidates("reference");
  return device;
}

TEST_CASE(
    "a device's ops are a table; a form that goes its op's way has no line, dtypes that go one way share "
    "it") {
  v1::ListKernelsResponse response;
  v1::NodeKernels& node = *response.add_nodes();
  node.set_node("a");
  v1::DeviceKernels& device = AddDevice(node, "gpu0");
  AddChoice(device, "Matmul", "", "f32", "library");
  AddChoice(device, "Matmul", "", "bf16", "library");
  AddChoice(device, "Matmul", "bias", "f32", "library");
  Decline(AddChoice(device, "Matmul", "bias", "bf16", "reference"), "library", "f32 only");
  Decline(AddChoice(device, "Matmul", "bias, GELU", "f32", "reference"), "library", "no such\nepilogue");
  Decline(AddChoice(device, "Add", "", "f32", "reference"), "library", "no kernel");
  CHECK(FormatKernels(response) ==
        "a/gpu0: quick; kernels, best first: library, reference\n"
        "OP                   DTYPE     KERNEL     DECLINED\n"
        "Matmul               f32 bf16  library\n"
        "Matmul (bias)        bf16      reference  library: f32 only\n"
        "Matmul (bias, GELU)  f32       reference  library: no such epilogue\n"
        "Add                  f32       reference  library: no kernel\n");
}

TEST_CASE("what failed says so: an op, a device, a node") {
  v1::ListKernelsResponse response;
  v1::NodeKernels& node = *response.add_nodes();
  node.set_node("a");
  v1::DeviceKernels& device = AddDevice(node, "gpu0");
  v1::KernelChoice& none = AddChoice(device, "Fill", "", "f32", "");
  Decline(none, "library", "no kernel");
  none.set_failure("Fill: no candidate takes it: library: no kernel");
  AddChoice(device, "Add", "", "f32", "library").set_failure("on fire");
  device.set_failure("Add: on fire");
  node.add_devices()->set_device("gpu1");
  node.mutable_devices(1)->set_failure("no driver");
  response.add_nodes()->set_node("b");
  response.mutable_nodes(1)->set_failure("the agent of node b does not answer");
  CHECK(FormatKernels(response) ==
        "a/gpu0: quick; kernels, best first: library, reference\n"
        "OP    DTYPE  KERNEL   DECLINED\n"
        "Fill  f32    none     Fill: no candidate takes it: library: no kernel\n"
        "Add   f32    library  FAILED: on fire\n"
        "cannot be asked: Add: on fire\n"
        "\n"
        "a/gpu1\n"
        "cannot be asked: no driver\n"
        "\n"
        "b: the agent of node b does not answer\n");
}

TEST_CASE("on a terminal reasons that are too long for it stand beneath their kernel") {
  v1::ListKernelsResponse response;
  v1::NodeKernels& node = *response.add_nodes();
  node.set_node("a");
  v1::DeviceKernels& device = *node.add_devices();
  device.set_device("gpu0");
  Decline(AddChoice(device, "Fill", "", "f32", "reference"), "library", "it has no kernel for this op");
  const std::string text = FormatKernels(response, 40);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    CAPTURE(line);
    CHECK(line.size() <= 40);
  }
  CHECK_THAT(text, Catch::Contains("declined: library: it has no kernel"));
}

TEST_CASE("no nodes, no text") { CHECK(FormatKernels({}) == ""); }

}  // namespace
}  // namespace medley
