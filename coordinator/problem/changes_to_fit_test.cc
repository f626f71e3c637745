#include "coordinator/problem/changes_to_fit.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes.h"
#include "runtime/ir/program/memory.h"

namespace medley {
namespace {

using Catch::Contains;

const TrainingShape kShape = {
    .model = {.layers = 4, .hidden = 32, .heads = 2, .feed_forward = 128, .vocabulary = 40, .context = 128},
    .sequence = 128,
    .global_batch_sequences = 16};

// A replica of two devices beside one of a device.
Plan Replicas() {
  Plan plan;
  plan.units = {{.devices = {"a/0", "a/1"}, .chunks = {{0, 6}}}, {.devices = {"b/0"}, .chunks = {{0, 6}}}};
  plan.routes = {{{0}, 2, 4}, {{1}, 2, 4}};
  return plan;
}

// Where each device has what `plan` needs of it, a byte more or less.
PlanSite SiteFor(const Plan& plan, int64_t more) {
  PlanSite site;
  for (int rank = 0; rank < RankCount(plan); ++rank)
    site.room_by_device[DeviceOf(plan, rank)].memory = MemoryOfRank(plan, rank, kShape).total() + Bytes{more};
  return site;
}

std::string Told(const Plan& plan, const PlanSite& site, const TrainingShape& shape = kShape) {
  return DescribeChangesToFit(plan, shape, site, CheckPlan(plan, shape, site));
}

// Of unit 1 of Replicas() with a change, where its device has just what that needs.
std::string ToldWhere(void (*change)(Plan&), int64_t more = 0) {
  Plan changed = Replicas();
  change(changed);
  PlanSite site = SiteFor(Replicas(), 0);
  site.room_by_device["b/0"].memory = SiteFor(changed, more).room_by_device["b/0"].memory;
  return Told(Replicas(), site);
}
std::string NeedOn(const Plan& plan, int rank) {
  return absl::StrCat("(", FormatBytes(MemoryOfRank(plan, rank, kShape).total()), " on ",
                      DeviceOf(plan, rank), ")");
}

TEST_CASE("of a unit that fits nothing is told, and of one that lacks a byte each change that is enough") {
  const Plan plan = Replicas();
  CHECK(Told(plan, SiteFor(plan, 0)) == "");
  PlanSite site = SiteFor(plan, 0);
  site.room_by_device["b/0"].memory -= Bytes{1};
  const auto with = [&](const std::function<void(Plan&)>& change) {
    Plan changed = plan;
    change(changed);
    return NeedOn(changed, 2);
  };
  CHECK(Told(plan, site) ==
        absl::StrCat("units[1] would fit with recompute: all_but_attention ",
                     with([](Plan& p) { p.units[1].recompute = Recompute::kAllButAttention; }),
                     ", or with window_layers: 2 ", with([](Plan& p) { p.units[1].window_layers = 2; }),
                     ", or with micro_batch_sequences: 2 ", with([](Plan& p) {
                       p.routes[1] = {{1}, 4, 2};
                     })));
}

TEST_CASE("activations go to the host where several micro-batches are under way") {
  Plan plan = Replicas();
  plan.schedule = Schedule::kGPipe;
  plan.routes = {{{0}, 8, 1}, {{1}, 8, 1}};
  Plan homed = plan;
  homed.units[1].activations_home = ActivationsHome::kHost;
  PlanSite site = SiteFor(plan, 0);
  site.room_by_device["b/0"].memory = MemoryOfRank(homed, 2, kShape).total();
  CHECK_THAT(Told(plan, site), Contains(absl::StrCat("activations_home: host ", NeedOn(homed, 2))));
  site.room_by_device["b/0"].memory -= Bytes{1};
  CHECK_THAT(Told(plan, site), !Contains("activations_home: "));
}

TEST_CASE("of each field the first value that is enough is told, to the byte") {
  const auto one_window = [](Plan& p) { p.units[1].window_layers = 1; };
  CHECK_THAT(ToldWhere(one_window), Contains("window_layers: 1 ("));
  CHECK_THAT(ToldWhere(one_window, -1), !Contains("window_layers: "));
  const auto layers = [](Plan& p) { p.units[1].recompute = Recompute::kLayers; };
  CHECK_THAT(ToldWhere(layers), Contains("recompute: layers ("));
  CHECK_THAT(ToldWhere(layers, -1), !Contains("recompute: "));
  const auto one_sequence = [](Plan& p) { p.routes[1] = {{1}, 8, 1}; };
  CHECK_THAT(ToldWhere(one_sequence), Contains("micro_batch_sequences: 1 ("));
  CHECK_THAT(ToldWhere(one_sequence, -1), !Contains("micro_batch_sequences: "));
}

TEST_CASE("rows can be cut among several devices, and more of what is recomputed already") {
  Plan plan = Replicas();
  plan.units[0].recompute = Recompute::kLayers;
  plan.units[0].recomputed_layers = 1;
  Plan by_rows = plan, all = plan;
  by_rows.units[0].sequence_parallel = true;
  all.units[0].recomputed_layers = 0;
  PlanSite site = SiteFor(plan, 0);
  for (const char* device : {"a/0", "a/1"}) site.room_by_device[device].memory -= Bytes{1};
  CHECK_THAT(Told(plan, site), Contains("units[0] would fit with recomputed_layers: 0, which is all (") &&
                                   Contains(absl::StrCat("sequence_parallel: true ", NeedOn(by_rows, 0))));
  // Whoever has the least left is named.
  site = SiteFor(all, 0);
  site.room_by_device["a/0"].memory += Bytes{1};
  CHECK_THAT(Told(plan, site), Contains(absl::StrCat("recomputed_layers: 0, which is all ", NeedOn(all, 1))));
}

TEST_CASE("a change that breaks another rule is not told") {
  Plan plan = Replicas();
  PlanSite site = SiteFor(plan, 0);
  site.room_by_device["b/0"].memory -= Bytes{1};
  // The host has no room for layers or activations.
  site.host_by_device["b/0"] = {"b", {1}};
  CHECK_THAT(Told(plan, site),
             Contains("recompute: ") && !Contains("window_layers: ") && !Contains("activations_home: "));
  // Micro-batches of 3 sequences can be cut into those of 1 alone.
  TrainingShape shape = kShape;
  shape.global_batch_sequences = 14;
  plan.routes[1] = {{1}, 2, 3};
  site = {};
  for (const char* device : {"a/0", "a/1", "b/0"}) site.room_by_device[device].memory = GiB(1);
  site.room_by_device["b/0"].memory = MemoryOfRank(plan, 2, shape).total() - Bytes{1};
  CHECK_THAT(Told(plan, site, shape),
             Contains("micro_batch_sequences: 1 (") && !Contains("micro_batch_sequences: 2 ("));
}

TEST_CASE("what a host of another unit lacks keeps no change from being told") {
  Plan plan = Replicas();
  plan.units[0].window_layers = 2;
  PlanSite site = SiteFor(plan, 0);
  site.room_by_device["b/0"].memory -= Bytes{1};
  for (const char* device : {"a/0", "a/1"}) site.host_by_device[device] = {"a", {1}};
  CHECK_THAT(Told(plan, site), Contains("units[1] would fit with recompute: all_but_attention ("));
}

TEST_CASE("where several units lack memory each is told of by itself, and that nothing helps") {
  const Plan plan = Replicas();
  PlanSite site = SiteFor(plan, -1);
  CHECK_THAT(Told(plan, site), Catch::StartsWith("units[0] would fit with recompute: all_but_attention (") &&
                                   Contains("; units[1] would fit with recompute: all_but_attention ("));
  site = SiteFor(plan, 0);
  site.room_by_device["b/0"].memory = {1000};
  CHECK(Told(plan, site) ==
        "units[1] would fit with no single change of recompute, sequence_parallel, window_layers, "
        "activations_home or micro_batch_sequences");
}

}  // namespace
}  // namespace medley
