// What units of several devices take, and what these exchange.
#include <catch2/catch.hpp>

#include "coordinator/predictor/library_sums.h"
#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/reductions.h"
#include "coordinator/predictor/uniform_problem.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

// Rings of two: a sum of n bytes is two messages of half of them each way, one after the other.
void ConnectBy(PlanningProblem& problem, double seconds_a_byte) {
  for (LinkCost& link : problem.links.each()) link = Link(0, 1 / seconds_a_byte, 1 / seconds_a_byte);
}

TEST_CASE("a unit of two takes its slower rank's passes, and their sums") {
  PlanningProblem problem = WithHeads(Uniform(2, 3, 5), 2);
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[1], 0.6}});
  Plan plan = Replicas(5, {5});
  plan.units[0].devices.push_back("d1");
  const double alone_seconds = 5 * 3 * 3 * 0.6;
  CHECK(*PredictStepSeconds(problem, plan) == Approx(alone_seconds).epsilon(1e-12));

  // A sum of [8, 4] in f32 takes a tenth of a second, one of the head's statistics, [3, 8], three quarters of
  // that.
  problem.forced_all_reduce = CollectiveAlgorithm::kTree;  // of gradients, of which nothing is summed here
  ConnectBy(problem, 0.1 / kMessageBytes);
  // Forward: the embedding and two branches of each of three layers. Backward: those branches, the head's two.
  const double sums_seconds = 0.1 * (7 + 6 + 1) + 0.075;
  const auto summed = PredictStep(problem, plan);
  REQUIRE(summed.status().ToString() == "OK");
  const double scalars_seconds = 0.1 * 8 * ScalarCount(problem.shape.model) / kMessageBytes;
  CHECK(summed->step_seconds == Approx(alone_seconds + 5 * sums_seconds + scalars_seconds).epsilon(1e-12));
  REQUIRE(summed->ranks.size() == 2);
  CHECK(summed->ranks[0].busy_seconds == Approx(5 * 3 * 3 * 0.5).epsilon(1e-12));
  CHECK(summed->ranks[1].busy_seconds == Approx(alone_seconds).epsilon(1e-12));
  CHECK(summed->ranks[1].exchange_seconds == Approx(5 * sums_seconds).epsilon(1e-12));
  // The faster one waits for the other.
  CHECK(summed->ranks[0].exchange_seconds == Approx(5 * sums_seconds + 5 * 3 * 3 * 0.1).epsilon(1e-12));

  // In bf16 half of the bytes cross, but of the statistics.
  plan.units[0].activations = Dtype::kBf16;
  CHECK(*PredictStepSeconds(problem, plan) ==
        Approx(alone_seconds + 5 * (0.05 * (7 + 6 + 1) + 0.075) + scalars_seconds).epsilon(1e-12));
}

TEST_CASE(
    "in sequence parallelism a unit's halves of sums are scattered and gathered, and its norms joined once") {
  PlanningProblem problem = WithHeads(Uniform(2, 3, 5), 2);
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[1], 0.5}});
  Plan plan = Replicas(5, {5});
  plan.units[0].devices.push_back("d1");
  plan.units[0].sequence_parallel = true;
  const double alone_seconds = 5 * 3 * 3 * 0.5;
  CHECK(*PredictStepSeconds(problem, plan) == Approx(alone_seconds).epsilon(1e-12));

  // Half of a sum of [8, 4] in f32 takes a twentieth of a second.
  ConnectBy(problem, 0.1 / kMessageBytes);
  const double forward_seconds = 0.05 * (1 + 6 * 2), backward_seconds = 0.05 * (6 * 3 + 2 + 1) + 0.075,
               micro_batch_seconds = forward_seconds + backward_seconds;
  // Seven norms of four weights and four biases.
  const double joins_seconds = 7 * 0.1 * (8 * 4 / kMessageBytes);
  const double scalars_seconds = 0.1 * 8 * ScalarCount(problem.shape.model) / kMessageBytes;
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.status().ToString() == "OK");
  CHECK(prediction->step_seconds ==
        Approx(alone_seconds + 5 * micro_batch_seconds + joins_seconds + scalars_seconds).epsilon(1e-12));
  CHECK(prediction->ranks[1].exchange_seconds ==
        Approx(5 * micro_batch_seconds + joins_seconds).epsilon(1e-12));
  const StepProgram program = CompileStep(plan, 0, problem.shape, Purpose::kTrain);
  double joined_seconds = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].kind != InstructionKind::kJoinGradients) continue;
    const InstructionTime& time = prediction->ranks[0].timeline[i];
    joined_seconds += time.end_seconds - time.start_seconds;
  }
  CHECK(joined_seconds == Approx(joins_seconds).epsilon(1e-12));

  // In bf16 half of the bytes cross, but of the statistics and the norms' gradients.
  plan.units[0].activations = Dtype::kBf16;
  CHECK(*PredictStepSeconds(problem, plan) ==
        Approx(alone_seconds + 5 * (0.025 * 34 + 0.075) + joins_seconds + scalars_seconds).epsilon(1e-12));

  // The sums that are left have an algorithm: the head's statistics, and a norm's gradients.
  const auto exchanges = ExchangesOf(problem, plan);
  REQUIRE(exchanges.ok());
  REQUIRE(exchanges->size() == 2);
  CHECK((*exchanges)[0].elements == 3 * 8);
  CHECK((*exchanges)[1].elements == 2 * 4);
}

TEST_CASE("what a unit sums of one part of a micro-batch takes no time beside a longer pass of another") {
  PlanningProblem problem = WithHeads(Uniform(2, 3, 10), 2);
  problem.micro_batch_sizes = {1, 2};
  for (DeviceCost& device : problem.devices)
    device.times.push_back({.embedding = {0, 0}, .layer = {2, 4, 2}, .head = {0, 0}});
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[1], 0.6}});
  Plan plan = Replicas(5, {5});
  plan.units[0].devices.push_back("d1");
  plan.routes[0].micro_batch_sequences = 2;
  problem.forced_all_reduce = CollectiveAlgorithm::kTree;
  // Of a part, [8, 4], each sum takes so long; one of the head's statistics, [3, 16], one and a half of them.
  const auto connect = [&](double seconds) {
    ConnectBy(problem, seconds / kMessageBytes);
    return seconds * 8 * ScalarCount(problem.shape.model) / kMessageBytes;
  };
  const double computing_seconds = 5 * 3 * (2 + 4) * 0.6;
  double scalars_seconds = connect(0.1);
  CHECK(*PredictStepSeconds(problem, plan) ==
        Approx(computing_seconds + 5 * (0.2 * 14 + 0.15) + scalars_seconds).epsilon(1e-12));
  plan.units[0].exchange_parts = 2;
  // Nothing is computed beside the first sum of the embedding, the last of the forward, and those of the head.
  auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.status().ToString() == "OK");
  CHECK(prediction->step_seconds ==
        Approx(computing_seconds + 5 * (0.1 + 0.1 + 0.15 + 0.2) + scalars_seconds).epsilon(1e-12));
  CHECK(prediction->ranks[1].busy_seconds == Approx(computing_seconds).epsilon(1e-12));
  CHECK(prediction->ranks[1].exchange_seconds == Approx(5 * 0.55).epsilon(1e-12));

  // Cores that exchange compute nothing meanwhile.
  for (DeviceCost& device : problem.devices) device.cores = 2;
  CHECK(*PredictStepSeconds(problem, plan) ==
        Approx(computing_seconds + 5 * (0.2 * 14 + 0.15) + scalars_seconds).epsilon(1e-12));
  for (DeviceCost& device : problem.devices) device.cores = 0;

  // Sums that take longer than passes follow each other, and passes go beside them, but before the first of backward.
  scalars_seconds = connect(10);
  const double first_pass_seconds = BranchShare(problem.shape.model, 1, 8) * 2 * 0.6 / 2;
  CHECK(*PredictStepSeconds(problem, plan) ==
        Approx(5 * (10 * 14 + 15 + 20 + first_pass_seconds + 10 * 12) + scalars_seconds).epsilon(1e-12));

  // A layer's passes of the parts are measured by themselves.
  scalars_seconds = connect(0.1);
  for (DeviceCost& device : problem.devices) {
    for (ShareCost& share : device.shares) share.times[0].layer = {1, 3, 2};
  }
  prediction = PredictStep(problem, plan);
  REQUIRE(prediction.status().ToString() == "OK");
  // Forward, the gradient of the input, and that of the weights of all rows.
  CHECK(prediction->ranks[1].busy_seconds == Approx(5 * 3 * (2 * 1 + 2 * (3 - 2) + 2 * 0.6)).epsilon(1e-12));
  problem.micro_batch_sizes = {2};
  for (DeviceCost& device : problem.devices) {
    device.times.erase(device.times.begin());
    for (ShareCost& share : device.shares) share.times.erase(share.times.begin());
  }
  CHECK(PredictStepSeconds(problem, plan).status().message() ==
        "units[0].exchange_parts: 2 cut a micro-batch of 2 sequences into parts of 1, which is not among the "
        "problem's micro_batch_sizes");

  const auto exchanges = ExchangesOf(problem, plan);
  REQUIRE(exchanges.ok());
  std::vector<int64_t> elements;
  for (const ReductionChoice& exchange : *exchanges) elements.push_back(exchange.elements);
  CHECK(elements == std::vector<int64_t>{8 * 4, 16 * 4, 3 * 16});
}

TEST_CASE("parts that cut sequences wait for each other in attention alone") {
  PlanningProblem problem = WithHeads(Uniform(2, 3, 5), 2);
  const ModelConfig& model = problem.shape.model;
  const std::vector<ModelShare> shares = EvenShares(model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[1], 0.6}});
  Plan plan = Replicas(5, {5});
  plan.units[0].devices.push_back("d1");
  plan.units[0].exchange_parts = 2;
  problem.forced_all_reduce = CollectiveAlgorithm::kTree;
  // Of a part, [4, 4], each sum takes so long; one of the head's statistics, [3, 8], one and a half of them.
  const auto connect = [&](double seconds) {
    ConnectBy(problem, 2 * seconds / kMessageBytes);
    return 2 * seconds * 8 * ScalarCount(model) / kMessageBytes;
  };
  // Of a token, 2 * 4 * 12 FLOPs before the core of attention, 2 * 8 * 4 in it and 2 * 4 * 4 behind it; in backward 5 * 8 * 4 in it.
  const StepShares forward = ForwardStepShares(model, 0, 8), gradient = InputGradientStepShares(model, 0, 8);
  CHECK(forward.before == Approx(96.0 / 192));
  CHECK(forward.core == Approx(64.0 / 192));
  CHECK(forward.behind == Approx(32.0 / 192));
  CHECK(gradient.before == Approx(32.0 / 288));
  CHECK(gradient.core == Approx(160.0 / 288));
  CHECK(gradient.behind == Approx(96.0 / 288));

  // Nothing is computed beside the first sum of the embedding, the last of the forward, and those of the head.
  double scalars_seconds = connect(0.01);
  const double computing_seconds = 5 * 3 * 3 * 0.6;
  CHECK(*PredictStepSeconds(problem, plan) ==
        Approx(computing_seconds + 5 * (0.01 + 0.01 + 0.015 + 0.02) + scalars_seconds).epsilon(1e-12));

  // Beside long sums go all passes but those of attention that wait for all parts, and the first of backward.
  scalars_seconds = connect(10);
  const double attention_seconds = 0.6 * 192 / 448, other_seconds = 0.6 * 256 / 448;
  const double waits_forward = 0.5 * 96 / 192 + 64.0 / 192 + 0.5 * 32 / 192,
               waits_backward = 0.5 * 32 / 288 + 160.0 / 288 + 0.5 * 96 / 288;
  CHECK(*PredictStepSeconds(problem, plan) ==
        Approx(5 * (10 * 14 + 15 + 20 + 10 * 12 + 3 * (waits_forward + waits_backward) * attention_seconds +
                    other_seconds / 2) +
               scalars_seconds)
            .epsilon(1e-12));
}

TEST_CASE("what a unit of devices with memory of their own exchanges goes by their library, or is copied") {
  PlanningProblem problem = WithHeads(Uniform(2, 3, 5), 2);
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[1], 0.5}});
  Plan plan = Replicas(5, {5});
  plan.units[0].devices.push_back("d1");
  plan.units[0].sequence_parallel = GENERATE(false, true);
  ConnectBy(problem, 0.1 / kMessageBytes);
  const auto exchange_seconds = [&] {
    const auto prediction = PredictStep(problem, plan);
    REQUIRE(prediction.status().ToString() == "OK");
    return prediction->ranks[0].exchange_seconds;
  };
  const auto way = [&] { return GroupWayOf(problem, {0, 1}, GroupUse::kPasses); };
  // In memory that the hosts reach, however fast they copy.
  for (DeviceCost& device : problem.devices) {
    device.store_bytes_per_second = kMessageBytes / 0.01;
    device.fetch_bytes_per_second = kMessageBytes / 0.03;
  }
  const double in_place_seconds = exchange_seconds();
  CHECK(way() == GroupWay::kHost);

  // Bytes of an exchange of the rows, in units of kMessageBytes, times how often they are stored and fetched in a
  // micro-batch; of the head's statistics; and of seven norms in a step.
  const bool by_rows = plan.units[0].sequence_parallel;
  const double sums = 14, gathers = 13 + 7, statistics = 0.75, norms = 7 * 8 * 4 / kMessageBytes;
  const auto copies = [&](double store_seconds, double fetch_seconds) {
    const double of_statistics = statistics * (store_seconds + fetch_seconds);
    if (!by_rows) return 5 * (sums * (store_seconds + fetch_seconds) + of_statistics);
    return 5 * (sums * (store_seconds + fetch_seconds / 2) + gathers * (store_seconds + fetch_seconds) +
                of_statistics) +
           norms * (store_seconds + fetch_seconds);
  };
  problem.devices[0].has_own_memory = true;
  CHECK(exchange_seconds() == Approx(in_place_seconds + copies(0.01, 0.03)).epsilon(1e-12));
  // The slower of two.
  problem.devices[1].has_own_memory = true;
  problem.devices[1].fetch_bytes_per_second = kMessageBytes / 0.05;
  CHECK(exchange_seconds() == Approx(in_place_seconds + copies(0.01, 0.05)).epsilon(1e-12));
  CHECK(way() == GroupWay::kHost);
  // A rate that is not known hinders nothing.
  problem.devices[1].fetch_bytes_per_second = 0;
  CHECK(exchange_seconds() == Approx(in_place_seconds + copies(0.01, 0.03)).epsilon(1e-12));

  problem.devices[0].group_library = "NCCL 2.28.3";
  CHECK(way() == GroupWay::kHost);
  problem.devices[1].group_library = "NCCL 2.28.3";
  CHECK(way() == GroupWay::kLibrary);
  CHECK(exchange_seconds() == Approx(in_place_seconds).epsilon(1e-12));
  problem.device_memory = DeviceMemoryStrategy::kStaged;
  CHECK(way() == GroupWay::kHost);
  CHECK(exchange_seconds() == Approx(in_place_seconds + copies(0.01, 0.03)).epsilon(1e-12));

  // Measured: a sum of the rows takes a millisecond, and none less than half of one.
  problem.device_memory = DeviceMemoryStrategy::kAutomatic;
  for (LinkCost& link : problem.links.each())
    link.all_reduce = {{2, {{{0.75 * kMessageBytes, 0.5e-3}, {kMessageBytes, 1e-3}}}}};
  const double norms_seconds = 7 * 0.5e-3;
  CHECK(exchange_seconds() == Approx(by_rows ? 5 * (1e-3 * (sums + gathers) / 2 + 0.5e-3) + norms_seconds
                                             : 5 * (1e-3 * sums + 0.5e-3))
                                  .epsilon(1e-12));
}

TEST_CASE("the choices that the prediction of a unit's sums supposes are told, each size once") {
  PlanningProblem problem = WithHeads(Uniform(3, 3, 6), 2);
  problem.micro_batch_sizes = {1, 2};
  Plan plan = Replicas(5, {2, 2});
  plan.units[1].devices = {"d1", "d2"};
  plan.routes[1].micro_batch_sequences = 2;
  const auto exchanges = ExchangesOf(problem, plan);
  REQUIRE(exchanges.status().ToString() == "OK");
  REQUIRE(exchanges->size() == 2);
  for (const ReductionChoice& exchange : *exchanges) CHECK(exchange.holders == std::vector<Rank>{1, 2});
  CHECK((*exchanges)[0].elements == 2 * 8 * 4);
  CHECK((*exchanges)[1].elements == 3 * 2 * 8);
}

TEST_CASE("ranks of a unit wait for the last of them, and what crosses to them is cut and gathered") {
  // One device, then two that share the rest, which has a head of its own.
  PlanningProblem problem = WithHeads(Uniform(3, 2, 1), 2);
  problem.shape.model.family = ModelFamily::kLlama;
  problem.shape.model.tied_head = false;
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[0], 0.5}, {shares[1], 0.5}});
  Plan plan = Pipeline({2, 4}, 1, Schedule::kOneForwardOneBackward);
  plan.units[1].devices = {"d1", "d2"};
  // Half of the rows go to each; to d2 four times as slowly.
  problem.links.Mutable(0, 1).transfer = LinkModel::Line(0, kMessageBytes / 2);
  problem.links.Mutable(0, 2).transfer = LinkModel::Line(0, kMessageBytes / 8);
  // Each gives the other its half, in a second; there and back.
  problem.links.Set(1, 2, Link(0, kMessageBytes / 2, kMessageBytes / 2));
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.status().ToString() == "OK");
  const StepProgram program = CompileStep(plan, 1, problem.shape, Purpose::kTrain);
  const auto time_of = [&](Rank rank, InstructionKind kind) {
    const StepProgram of_rank = CompileStep(plan, rank, problem.shape, Purpose::kTrain);
    for (size_t i = 0; i < of_rank.instructions.size(); ++i) {
      if (of_rank.instructions[i].kind == kind) return prediction->ranks[rank].timeline[i];
    }
    return InstructionTime{-1, -1};
  };
  CHECK(time_of(0, InstructionKind::kForward).end_seconds == Approx(1));
  // What d0 sends it sends to one after the other.
  CHECK(time_of(1, InstructionKind::kReceiveActivation).end_seconds == Approx(2));
  CHECK(time_of(2, InstructionKind::kReceiveActivation).end_seconds == Approx(6));
  for (const Rank rank : {Rank(1), Rank(2)}) {
    CHECK(time_of(rank, InstructionKind::kGatherActivation).start_seconds == Approx(6));
    CHECK(time_of(rank, InstructionKind::kGatherActivation).end_seconds == Approx(7));
    CHECK(time_of(rank, InstructionKind::kForward).start_seconds == Approx(7));
    // Half a second, and two branches' sums of two seconds each.
    CHECK(time_of(rank, InstructionKind::kForward).end_seconds == Approx(11.5));
    // A second of computing; two branches, the head's normed input and three quarters for its statistics.
    CHECK(time_of(rank, InstructionKind::kBackward).end_seconds == Approx(11.5 + 1 + 6 + 1.5));
  }
  // All links between neighbours are used both ways.
  CHECK(time_of(0, InstructionKind::kReceiveGradient).end_seconds > 20);
}

TEST_CASE("ranks on one processor take turns, and a unit's norm and update are of its ranks' own parts") {
  PlanningProblem problem = WithHeads(Uniform(2, 2, 4), 2);
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[1], 0.5}});
  Plan plan = Replicas(4, {4});
  plan.units[0].devices.push_back("d1");
  problem.devices[1].processor = problem.devices[0].processor;
  CHECK(*PredictStepSeconds(problem, plan) == Approx(4 * 2 * 3).epsilon(1e-12));
  problem.devices[1].processor = 1;
  problem.devices[0].shares[0].update_seconds_per_parameter = 1e-3;
  problem.devices[1].shares[0].norm_seconds_per_parameter = 1e-3;
  int64_t held = 0;
  const ModelConfig local = LocalModel(problem.shape.model, shares[0]);
  for (const SegmentId segment : SegmentsOf(problem.shape.model, plan.units[0].chunks))
    held += SegmentElements(local, segment);
  CHECK(*PredictStepSeconds(problem, plan) ==
        Approx(4 * 2 * 1.5 + 2e-3 * static_cast<double>(held)).epsilon(1e-12));
}

}  // namespace
}  // namespace medley
