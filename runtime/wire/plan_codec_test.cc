#include "runtime/wire/plan_codec.h"

#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "runtime/wire/device_codec.h"

namespace medley {
namespace {

// Any passes; whether they make sense is not the codec's to say.
UnitOrder RandomOrder(std::mt19937_64& random) {
  constexpr UnitOp::Kind kKinds[] = {UnitOp::Kind::kForward, UnitOp::Kind::kBackward,
                                     UnitOp::Kind::kInputGradient, UnitOp::Kind::kWeightGradient};
  UnitOrder order;
  for (size_t passes = random() % 20; passes > 0; --passes) {
    const UnitOp op = {kKinds[random() % 4], static_cast<int>(random() % 3),
                       static_cast<int>(random() % 100)};
    for (int run = 1 + static_cast<int>(random() % 3), m = 0; m < run; ++m)
      order.push_back({op.kind, op.visit, op.micro_batch + m});
  }
  return order;
}

Plan RandomPlan(uint64_t seed) {
  std::mt19937_64 random(seed);
  Plan plan;
  plan.schedule = static_cast<Schedule>(random() % kSchedules);
  plan.shards_optimizer = random() % 2 == 0;
  const int units = static_cast<int>(1 + random() % 6);
  for (int i = 0; i < units; ++i) {
    const int first = static_cast<int>(random() % 10);
    plan.units.push_back({.devices = {"n" + std::to_string(i) + "/cpu0"},
                          .chunks = {{first, first + 1 + static_cast<int>(random() % 10)}}});
    plan.units.back().recompute = static_cast<Recompute>(random() % kRecomputes);
    plan.units.back().recomputed_layers = static_cast<int>(random() % 3);
    plan.units.back().sequence_parallel = random() % 2 == 0;
    plan.units.back().optimizer_weight = static_cast<int>(random() % 4);
    plan.units.back().exchange_parts = static_cast<int>(random() % 4);
    plan.units.back().window_layers = static_cast<int>(random() % 3);
    plan.units.back().layers_home = static_cast<LayersHome>(random() % kLayersHomes);
    if (random() % 2 == 0) plan.units.back().activations_home = ActivationsHome::kHost;
    plan.units.back().homed_layers = static_cast<int>(random() % 3);
    if (plan.schedule == Schedule::kListed) plan.units.back().order = RandomOrder(random);
    const auto nanoseconds = [&] { return static_cast<int64_t>(random() % 1'000'000'000'000); };
    if (random() % 2 == 0)
      plan.units.back().paces.push_back(
          {nanoseconds(), nanoseconds(), nanoseconds(), nanoseconds(), nanoseconds()});
    if (random() % 3 > 0) continue;
    Unit& unit = plan.units.back();  // of two devices that share unevenly, and of two ranges
    unit.devices.push_back("n" + std::to_string(i) + "/cpu1");
    unit.chunks.push_back({unit.chunks[0].end + 1, unit.chunks[0].end + 3});
    unit.shares = {{{0, 3}, {0, 20}, {0, 30}}, {{3, 4}, {20, 32}, {30, 41}}};
    if (random() % 2 == 0) {  // by query heads
      for (ModelShare& share : unit.shares) std::swap(share.key_value_heads, share.query_heads);
    }
  }
  for (size_t r = 1 + random() % 3; r > 0; --r) {
    Route route;
    route.micro_batches = static_cast<int>(1 + random() % 8);
    route.micro_batch_sequences = static_cast<int>(1 + random() % 2);
    for (size_t k = 1 + random() % 3; k > 0; --k) route.units.push_back(static_cast<int>(random() % units));
    plan.routes.push_back(route);
  }
  return plan;
}

TEST_CASE("a plan survives the wire") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{200}));
  CAPTURE(seed);
  const Plan plan = RandomPlan(seed);
  const absl::StatusOr<Plan> back = DecodePlan(EncodePlan(plan));
  REQUIRE(back.ok());
  CHECK(*back == plan);
}

TEST_CASE("a plan that makes no sense is refused by field") {
  const v1::Plan good = EncodePlan(RandomPlan(1));
  const auto error = [&](auto spoil) {
    v1::Plan plan = good;
    spoil(plan);
    const absl::Status status = DecodePlan(plan).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(error([](v1::Plan& p) {
          p.mutable_units(0)->mutable_blocks(0)->set_first(3);
          p.mutable_units(0)->mutable_blocks(0)->set_end(3);
        }) == "units[0].blocks[0].end: 3 is not beyond first, 3");
  CHECK(error([](v1::Plan& p) {
          p.mutable_routes(0)->set_units(0, p.units_size());
        }).find("routes[0].units[0]: ") == 0);
  CHECK(error([](v1::Plan& p) {
          p.mutable_units(0)->set_activations_home(static_cast<v1::ActivationsHome>(7));
        }) == "units[0].activations_home: 7 is none of its values");
  const auto share = [&](uint32_t key_value_heads, uint32_t query_heads) {
    return error([&](v1::Plan& p) {
      v1::Unit& unit = *p.mutable_units(0);
      unit.clear_shares();
      unit.add_shares()->set_key_value_heads(1);
      unit.add_shares()->set_key_value_heads(key_value_heads);
      unit.mutable_shares(1)->set_query_heads(query_heads);
    });
  };
  CHECK(share(0, 0) == "units[0].shares[1].key_value_heads: must be given, or query_heads");
  CHECK(share(1, 2) ==
        "units[0].shares[1].query_heads: 2; key_value_heads is given, too, and only one may be");
  CHECK(share(0, 2) ==
        "units[0].shares[1].query_heads: the unit's first share has key_value_heads, and all must have the "
        "same");
  CHECK(error([](v1::Plan& p) {
          p.mutable_units(0)->set_order("F0 G1");
        }).find("units[0].order: \"G1\" is no pass; one is a letter (F, B, I or W)") == 0);
}

TEST_CASE("a schedule that is left out is 1F1B") {
  v1::Plan plan = EncodePlan(RandomPlan(2));
  plan.set_schedule(v1::SCHEDULE_UNSPECIFIED);
  CHECK(DecodePlan(plan)->schedule == Schedule::kOneForwardOneBackward);
  plan.set_schedule(static_cast<v1::Schedule>(9));
  CHECK(DecodePlan(plan).status().message() == "schedule: 9 is none of its values");
}

TEST_CASE("a device's description survives the wire, and a memory beyond all is clamped") {
  const DeviceDescription device{"cpu0", "cpu", "avx2", {0, 3}, MiB(512), "/etc/a100.yaml", MiB(128)};
  v1::Device encoded = EncodeDevice(device);
  const DeviceDescription back = DecodeDevice(encoded);
  CHECK(back.name == "cpu0");
  CHECK(back.backend == "cpu");
  CHECK(back.variant == "avx2");
  CHECK(back.cores == std::vector<int>{0, 3});
  CHECK(back.memory_limit == MiB(512));
  CHECK(back.profile == "/etc/a100.yaml");
  CHECK(back.largest_buffer == MiB(128));
  CHECK(back == device);
  CHECK(DecodeDevice(v1::Device()).largest_buffer == Bytes{0});
  encoded.set_memory_bytes(std::numeric_limits<uint64_t>::max());
  CHECK(DecodeDevice(encoded).memory_limit.value == std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace medley
