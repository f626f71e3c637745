#include "kernels/fallback/reference_fallback_ops.h"

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/skeleton/skeleton_queue.h"
#include "runtime/device/canonical_ops.h"

namespace medley {
namespace {

std::vector<std::byte> Contents(DeviceQueue& queue, Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.size().value);
  REQUIRE(queue.Download(buffer, {0}, absl::MakeSpan(bytes)).ok());
  REQUIRE(queue.Wait(queue.Record()).ok());
  return bytes;
}

// Everything in the buffer of a canonical op after `ops` has run it, what lies between its operands included.
template <typename Args>
std::vector<std::byte> After(Args args, DeviceQueue& queue, Ops& ops) {
  const auto buffer = PlaceOperands(args, queue);
  REQUIRE(buffer.ok());
  REQUIRE(RunOp(ops, args).ToString() == "OK");
  return Contents(queue, **buffer);
}

template <typename Args>
std::vector<std::byte> Before(Args args, DeviceQueue& queue) {
  const auto buffer = PlaceOperands(args, queue);
  REQUIRE(buffer.ok());
  return Contents(queue, **buffer);
}

struct Sides {
  HostQueue host{"host", MiB(64)};
  ReferenceOps reference{host};
  SkeletonQueue device{MiB(64)};
  ReferenceFallbackOps fallback{device};
};

template <typename Args>
void CheckForms(const std::vector<CanonicalOp<Args>>& forms) {
  Sides sides;
  for (const CanonicalOp<Args>& op : forms) {
    CAPTURE(NameOf(KindOf(op.args)), op.form);
    const std::vector<std::byte> want = After(op.args, sides.host, sides.reference);
    CHECK((want != Before(op.args, sides.host)));
    CHECK((After(op.args, sides.device, sides.fallback) == want));
  }
  CHECK(sides.device.allocated() == Bytes{0});
}

TEST_CASE("every op gives the reference's bits on memory that the host cannot address") {
#define MEDLEY_CHECK_FORMS(name) CheckForms(Canonical##name());
  MEDLEY_EACH_OP(MEDLEY_CHECK_FORMS)
#undef MEDLEY_CHECK_FORMS
}

TEST_CASE("operands in place, and next to each other in one buffer, stay so") {
  Sides sides;
  const auto run = [](DeviceQueue& queue, Ops& ops) {
    GeluBackwardArgs args = CanonicalGeluBackward().front().args;
    const auto buffer = PlaceOperands(args, queue);
    REQUIRE(buffer.ok());
    args.dx = args.dy;
    REQUIRE(ops.GeluBackward(args).ok());
    // x right before its sum's operand, at an offset that is no multiple of a vector.
    AddArgs add = {
        .a = args.x.Sub(1, 100), .b = args.x.Sub(101, 100), .c = args.x.Sub(1, 100), .elements = 100};
    REQUIRE(ops.Add(add).ok());
    return Contents(queue, **buffer);
  };
  CHECK((run(sides.device, sides.fallback) == run(sides.host, sides.reference)));
}

TEST_CASE("an op without work leaves its results as the reference does") {
  Sides sides;
  const auto run = [](DeviceQueue& queue, Ops& ops) {
    MatmulArgs args = CanonicalMatmul().front().args;
    const auto buffer = PlaceOperands(args, queue);
    REQUIRE(buffer.ok());
    args.k = 0;
    REQUIRE(ops.Matmul(args).ToString() == "OK");
    LayerNormForwardArgs norm = CanonicalLayerNormForward().front().args;
    const auto norm_buffer = PlaceOperands(norm, queue);
    REQUIRE(norm_buffer.ok());
    norm.columns = 0;
    REQUIRE(ops.LayerNormForward(norm).ok());
    REQUIRE(ops.Fill({.elements = 0}).ok());
    std::vector<std::byte> all = Contents(queue, **buffer);
    const std::vector<std::byte> second = Contents(queue, **norm_buffer);
    all.insert(all.end(), second.begin(), second.end());
    return all;
  };
  CHECK((run(sides.device, sides.fallback) == run(sides.host, sides.reference)));
}

TEST_CASE("what is wrong with the arguments is said in the same words, and nothing is copied") {
  Sides sides;
  AddArgs on_host = CanonicalAdd().front().args, on_device = on_host;
  const auto host_buffer = PlaceOperands(on_host, sides.host);
  const auto buffer = PlaceOperands(on_device, sides.device);
  REQUIRE(buffer.ok());
  on_host.elements = on_device.elements = on_host.a.elements + 1;
  const absl::Status status = sides.fallback.Add(on_device);
  CHECK(absl::IsOutOfRange(status));
  CHECK(status == sides.reference.Add(on_host));
}

TEST_CASE("the device's error ends an op before it computes") {
  Sides sides;
  AddArgs args = CanonicalAdd().front().args;
  const auto buffer = PlaceOperands(args, sides.device);
  REQUIRE(buffer.ok());
  REQUIRE(sides.device.Submit([] { return absl::DataLossError("lost"); }).ok());
  CHECK(sides.fallback.Add(args) == absl::DataLossError("lost"));
}

}  // namespace
}  // namespace medley
