#include "coordinator/predictor/predict.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/predictor/alike_routes.h"
#include "coordinator/predictor/library_sums.h"
#include "coordinator/predictor/reductions.h"
#include "runtime/ir/model/block_sizes.h"
#include "runtime/ir/model/model_share.h"
#include "runtime/ir/model/parameters.h"
#include "runtime/ir/program/evaluate_orders.h"
#include "runtime/ir/program/random_plan.h"
#include "runtime/ir/program/synthesise_orders.h"

namespace medley {
namespace {

// Messages of n bytes take latency + n / rate, and rounds of a reduction latency + n / all_reduce_rate.
LinkCost Link(double latency_seconds, double rate, double all_reduce_rate) {
  return {LinkModel::Line(latency_seconds, rate), LinkModel::Line(latency_seconds, all_reduce_rate)};
}

constexpr double kInstant = std::numeric_limits<double>::infinity();

// Devices "d0", "d1", ... alike: embedding and head take nothing, a layer 1 s forward and 2 s backward.
// Messages take nothing unless a test says so.
PlanningProblem Uniform(int devices, int layers, int micro_batches) {
  PlanningProblem problem;
  problem.shape.model = {
      .layers = layers, .hidden = 4, .heads = 1, .feed_forward = 16, .vocabulary = 10, .context = 8};
  problem.shape.sequence = 8;
  problem.shape.global_batch_sequences = micro_batches;
  problem.micro_batch_sizes = {1};
  for (int d = 0; d < devices; ++d) {
    problem.devices.push_back({.name = absl::StrCat("d", d),
                               .kind = "k",
                               .processor = d,
                               .room = {.memory = GiB(1)},
                               .times = {{.embedding = {0, 0}, .layer = {1, 2, 1}, .head = {0, 0}}}});
  }
  problem.links = DeviceLinks(static_cast<int>(devices));
  return problem;
}

constexpr double kMessageBytes = 4.0 * 8 * 4;  // of Uniform

Plan Pipeline(const std::vector<int>& ends, int micro_batches, Schedule schedule) {
  Plan plan{.schedule = schedule};
  plan.routes.push_back({.micro_batches = micro_batches, .micro_batch_sequences = 1});
  int first = 0;
  for (const int end : ends) {
    const int unit = static_cast<int>(plan.units.size());
    plan.units.push_back({{absl::StrCat("d", unit)}, {{first, end}}});
    plan.routes[0].units.push_back(unit);
    first = end;
  }
  return plan;
}

Plan Replicas(int blocks, const std::vector<int>& micro_batches) {
  Plan plan;
  for (const int count : micro_batches) {
    const int unit = static_cast<int>(plan.units.size());
    plan.units.push_back({{absl::StrCat("d", unit)}, {{0, blocks}}});
    plan.routes.push_back({{unit}, count, 1});
  }
  return plan;
}

TEST_CASE("one device takes the sum of its passes, norm and update") {
  PlanningProblem problem = Uniform(1, 3, 5);
  problem.devices[0].times[0].embedding = {0.25, 0.5};
  problem.devices[0].times[0].head = {0.125, 0.0625};
  problem.devices[0].norm_seconds_per_parameter = 1e-3;
  problem.devices[0].update_seconds_per_parameter = 2e-3;
  const auto prediction = PredictStep(problem, Replicas(5, {5}));
  REQUIRE(prediction.ok());
  const double passes = 5 * (3 * 3 + 0.25 + 0.5 + 0.125 + 0.0625);
  const double parameters = static_cast<double>(ModelElements(problem.shape.model));
  CHECK(prediction->step_seconds == Approx(passes + 3e-3 * parameters).epsilon(1e-12));
  CHECK(prediction->ranks[0].busy_seconds == Approx(prediction->step_seconds).epsilon(1e-12));
  CHECK(prediction->tokens_per_second == Approx(5 * 8 / prediction->step_seconds));
}

TEST_CASE(
    "a layer that lives on the host is fetched beside what computes, and waited for where that is slower") {
  PlanningProblem problem = Uniform(1, 6, 4);
  problem.devices[0].norm_seconds_per_parameter = 1e-6;
  problem.devices[0].update_seconds_per_parameter = 2e-6;
  Plan plan = Replicas(8, {4});
  plan.schedule = Schedule::kGPipe;
  plan.units[0].window_layers = 2;
  CHECK_THAT(
      std::string(PredictStepSeconds(problem, plan).status().message()),
      Catch::Contains("units[0].window_layers: 2, but how fast d0 copies from and to host memory has not "
                      "been measured"));
  const double layer = static_cast<double>(SegmentElements(problem.shape.model, SegmentOfBlock(1)));
  const double parameters = static_cast<double>(ModelElements(problem.shape.model));
  const auto predict = [&](double bytes_per_second) {
    problem.devices[0].fetch_bytes_per_second = problem.devices[0].store_bytes_per_second = bytes_per_second;
    const auto seconds = PredictStepSeconds(problem, plan);
    REQUIRE(seconds.ok());
    return *seconds;
  };
  // Four micro-batches of six layers; norms and updates of all, and gradients of the layers are zeroed by themselves.
  const double computing = 4 * 6 * 3 + 3e-6 * parameters + 1e-6 * 6 * layer;
  CHECK(predict(1e15) == Approx(computing).epsilon(1e-6));
  // A layer comes while the one before computes for 4 s or more: only the first one is waited for, and what the update
  // needs, which comes and goes 16 and 12 bytes a parameter, both ways at once.
  const double slow = 4 * layer;  // bytes a second: a layer's parameters take 1 s
  const double seconds = predict(slow);
  CHECK(seconds > computing + 1);
  CHECK(seconds < computing + 1 + 6 * 4 + 3);
  // Much slower than it computes: all that is fetched follows each other.
  const double fetched = (6 * (4 + 4 + 16) - 2 * 4 - 2 * 8) * layer;
  const double slowest = predict(slow / 1000);
  CHECK(slowest > fetched / (slow / 1000));
}

TEST_CASE(
    "a layer that lives with its holders is gathered before its passes and scattered behind its gradients") {
  PlanningProblem problem = Uniform(2, 2, 2);
  problem.forced_all_reduce = CollectiveAlgorithm::kRing;
  const double elements = static_cast<double>(ModelElements(problem.shape.model));
  for (LinkCost& link : problem.links.each()) link = Link(0, kInstant, 4 * elements / 2);
  Plan plan = Replicas(4, {1, 1});
  plan.schedule = Schedule::kGPipe;
  plan.shards_optimizer = true;
  for (Unit& unit : plan.units) {
    unit.layers_home = LayersHome::kPeers;
    unit.window_layers = 1;
  }
  // Half of a sum of all gradients, which takes 2 s.
  const auto seconds_of = [&](SegmentId segment) {
    return static_cast<double>(SegmentElements(problem.shape.model, segment)) / elements;
  };
  const double layer = seconds_of(SegmentOfBlock(1)), embedding = seconds_of(SegmentOfBlock(0)),
               tied = seconds_of(kTiedSegment);
  // With one window nothing is gathered beside the layer before: two layers, forward and backward. The scatter of the
  // upper one goes beside the gathering of the lower one; behind the last backward are that of the lower one, and beside
  // it that of the embedding. First what does not live with its holders is gathered, the embedding beside the lower layer,
  // the head beside the layers' passes.
  const auto seconds = PredictStepSeconds(problem, plan);
  REQUIRE(seconds.ok());
  CHECK(*seconds == Approx(2 * 3 + 3 * layer + 2 * std::max(layer, embedding + tied)).epsilon(1e-9));
  // With a window each, layers are gathered ahead.
  for (Unit& unit : plan.units) unit.window_layers = 2;
  const auto ahead = PredictStepSeconds(problem, plan);
  REQUIRE(ahead.ok());
  CHECK(*ahead < *seconds - layer);
  CHECK(*ahead > 2 * 3 + 2 * layer);
}

TEST_CASE("copies that a device's own cores make take from what computes") {
  PlanningProblem problem = Uniform(1, 6, 4);
  Plan plan = Replicas(8, {4});
  plan.units[0].window_layers = 2;
  const double layer_bytes =
      4.0 * static_cast<double>(SegmentElements(problem.shape.model, SegmentOfBlock(1)));
  DeviceCost& device = problem.devices[0];
  device.fetch_bytes_per_second = 4 * layer_bytes;
  device.store_bytes_per_second = 2 * layer_bytes;
  double copying = 0;
  for (const Instruction& instruction : CompileStep(plan, 0, problem.shape, Purpose::kTrain).instructions) {
    const double bytes = static_cast<double>(instruction.bytes.value);
    if (instruction.kind == InstructionKind::kFetch) copying += bytes / device.fetch_bytes_per_second;
    if (instruction.kind == InstructionKind::kStore) copying += bytes / device.store_bytes_per_second;
  }
  const double computing = 4 * 6 * 3;
  const auto predict = [&](int cores) {
    device.cores = cores;
    const auto prediction = PredictStep(problem, plan);
    REQUIRE(prediction.status().ToString() == "OK");
    return *prediction;
  };
  // One core always has something to do, and does one thing at a time.
  const auto one = predict(1);
  CHECK(one.step_seconds == Approx(computing + copying).epsilon(1e-12));
  // Computing and nothing beside it takes no longer; of more cores a copy takes a smaller part.
  CHECK(one.ranks[0].busy_seconds > computing + 1);
  const double engines = predict(0).step_seconds, two = predict(2).step_seconds,
               many = predict(64).step_seconds;
  CHECK(engines < many);
  CHECK(many < two);
  CHECK(two < one.step_seconds);
  CHECK(many == Approx(engines).epsilon(0.05));
}

TEST_CASE("sums of gradients take from what the same cores compute") {
  PlanningProblem problem = Uniform(2, 2, 4);
  problem.forced_all_reduce = CollectiveAlgorithm::kRing;
  const double bytes = 4.0 * static_cast<double>(ModelElements(problem.shape.model));
  for (LinkCost& link : problem.links.each()) link = Link(0, kInstant, bytes);  // all in a second
  const Plan plan = Replicas(4, {2, 2});
  const auto seconds = [&](int cores) {
    for (DeviceCost& device : problem.devices) device.cores = cores;
    return *PredictStepSeconds(problem, plan);
  };
  // Beside what computes but for the last bucket's; on the one core that computes all of it takes its time.
  const double hidden = seconds(0), one = seconds(1), many = seconds(64);
  CHECK(one == Approx(2 * 6 + 1).epsilon(1e-12));
  CHECK(hidden < one - 0.1);
  CHECK(many > hidden);
  CHECK(many == Approx(hidden).epsilon(0.01));
}

TEST_CASE(
    "activations that live on the host are copied beside what computes, and waited for where that is "
    "slower") {
  PlanningProblem problem = Uniform(1, 6, 8);
  Plan plan = Replicas(8, {8});
  plan.schedule = Schedule::kGPipe;
  plan.units[0].activations_home = ActivationsHome::kHost;
  CHECK_THAT(
      std::string(PredictStepSeconds(problem, plan).status().message()),
      Catch::Contains("units[0].activations_home: host, but how fast d0 copies from and to host memory has "
                      "not been measured"));
  const StepProgram program = CompileStep(plan, 0, problem.shape, Purpose::kTrain);
  double bytes = 0;
  int copies = 0;
  for (const Instruction& i : program.instructions) {
    if (i.kind != InstructionKind::kFetch) continue;
    bytes = static_cast<double>(i.bytes.value);
    ++copies;
  }
  REQUIRE(copies == 7);
  // If a copy takes so long, each way.
  const auto predict = [&](double copy_seconds) {
    problem.devices[0].fetch_bytes_per_second = problem.devices[0].store_bytes_per_second =
        bytes / copy_seconds;
    const auto seconds = PredictStepSeconds(problem, plan);
    REQUIRE(seconds.ok());
    return *seconds;
  };
  // Forwards take 6 s each, backwards 12.
  const double computing = 8 * 6 * 3;
  CHECK(predict(1e-6) == Approx(computing).epsilon(1e-6));
  CHECK(predict(5.9) == Approx(computing).epsilon(1e-6));
  CHECK(predict(12) > computing);
  // What goes one way follows each other.
  CHECK(predict(600) > 7 * 600);
  CHECK(predict(600) < 2 * 7 * 600 + computing);
}

TEST_CASE("weights' gradients that are put off fill two thirds of the bubble") {
  const int stages = GENERATE(2, 4), micro_batches = 8;
  std::vector<int> ends;
  for (int s = 1; s <= stages; ++s) ends.push_back(s == stages ? stages + 2 : s + 1);
  const auto seconds = PredictStepSeconds(Uniform(stages, stages, micro_batches),
                                          Pipeline(ends, micro_batches, Schedule::kZeroBubbleH1));
  REQUIRE(seconds.ok());
  CHECK(*seconds == Approx(3 * micro_batches + stages - 1));
}

TEST_CASE("a backward takes longer in two passes than whole by what was measured") {
  PlanningProblem problem = Uniform(1, 3, 2);
  problem.devices[0].times[0].layer.split_seconds = 0.125;
  Plan plan = Pipeline({5}, 2, Schedule::kListed);
  using Kind = UnitOp::Kind;
  plan.units[0].order = {{Kind::kForward, 0, 0},
                         {Kind::kBackward, 0, 0},
                         {Kind::kForward, 0, 1},
                         {Kind::kInputGradient, 0, 1},
                         {Kind::kWeightGradient, 0, 1}};
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.ok());
  CHECK(prediction->step_seconds == Approx(2 * 3 * 3 + 3 * 0.125));
  const StepProgram program = CompileStep(plan, 0, problem.shape, Purpose::kTrain);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const InstructionTime& time = prediction->ranks[0].timeline[i];
    const double seconds = time.end_seconds - time.start_seconds;
    if (program.instructions[i].kind == InstructionKind::kBackward) CHECK(seconds == Approx(3 * 2));
    if (program.instructions[i].kind == InstructionKind::kInputGradient) CHECK(seconds == Approx(3 * 1.125));
    if (program.instructions[i].kind == InstructionKind::kWeightGradient) CHECK(seconds == Approx(3));
  }
}

TEST_CASE("steps that go ahead of norms stand staggered, and take no less than the work of a unit") {
  PlanningProblem problem = Uniform(4, 8, 12);
  // The gradients of a table that both ends have are summed before either is updated.
  problem.shape.model.tied_head = false;
  const auto seconds = [&](Plan plan, bool ahead) {
    plan.post_validation = ahead;
    const absl::StatusOr<StepPrediction> prediction = PredictStep(problem, plan);
    INFO(prediction.status().ToString());
    REQUIRE(prediction.ok());
    double first = kInstant;
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      const RankPrediction& of_rank = prediction->ranks[rank];
      for (const InstructionTime& time : of_rank.timeline) first = std::min(first, time.start_seconds);
      CHECK(of_rank.busy_seconds <= prediction->step_seconds * (1 + 1e-12));
      CHECK(of_rank.timeline.size() ==
            CompileStep(plan, rank, problem.shape, Purpose::kTrain).instructions.size());
    }
    CHECK(first == 0);
    return prediction->step_seconds;
  };
  const Plan alone = Pipeline({10}, 12, Schedule::kOneForwardOneBackward);
  CHECK(seconds(alone, true) == Approx(seconds(alone, false)));
  // The first unit of 1F1B waits for its last gradient whoever else is ahead.
  const Plan alternates = Pipeline({3, 5, 7, 10}, 12, Schedule::kOneForwardOneBackward);
  CHECK(seconds(alternates, true) == Approx(seconds(alternates, false)));
  // One that may keep more has work while it waits, and the last one's end is the next step's begin.
  Plan staggers = alternates;
  TimedPipeline pipeline = NominalPipeline(staggers);
  for (TimedStage& stage : pipeline.routes[0].stages)
    stage.forward_seconds = stage.input_gradient_seconds = stage.weight_gradient_seconds = 2;
  const SynthesisedOrders found =
      SynthesiseOrders(pipeline, {.memory_limit = std::vector<double>(4, 100.0), .goal = OrderGoal::kPeriod});
  staggers.schedule = Schedule::kListed;
  for (int unit = 0; unit < 4; ++unit) staggers.units[unit].order = found.orders[unit];
  CHECK(seconds(staggers, false) > 12 * 6 + 5);
  const std::vector<int> ahead = ForwardsBeforeNorms(pipeline, found.orders);
  for (int unit = 0; unit < 4; ++unit) {
    staggers.units[unit].forwards_ahead = ahead[unit];
  }
  CHECK(seconds(staggers, true) == Approx(12 * 6));
}

TEST_CASE("a balanced pipeline without messages fills and drains once, under both schedules") {
  const int stages = GENERATE(2, 3, 4);
  const int micro_batches = GENERATE(1, 2, 4, 9);
  const Schedule schedule = GENERATE(Schedule::kGPipe, Schedule::kOneForwardOneBackward);
  CAPTURE(stages, micro_batches, NameOf(schedule));
  std::vector<int> ends;
  for (int s = 0; s < stages; ++s) ends.push_back(s + 2 + (s == stages - 1 ? 1 : 0));
  const auto seconds =
      PredictStepSeconds(Uniform(stages, stages, micro_batches), Pipeline(ends, micro_batches, schedule));
  REQUIRE(seconds.ok());
  CHECK(*seconds == Approx((micro_batches + stages - 1) * 3.0).epsilon(1e-12));
}

TEST_CASE("a pipeline under GPipe is as slow as its slowest forward and backward") {
  PlanningProblem problem = Uniform(2, 3, 6);
  // Stages of 1 and 2 layers: 1 + 2 forward to fill, the slower stage's rest, and backwards likewise.
  const auto seconds = PredictStepSeconds(problem, Pipeline({2, 5}, 6, Schedule::kGPipe));
  REQUIRE(seconds.ok());
  CHECK(*seconds == Approx((1 + 2 + 5 * 2) + (4 + 2 + 5 * 4)).epsilon(1e-12));
}

TEST_CASE("a message takes its latency and its bytes at the link's rate") {
  PlanningProblem problem = Uniform(2, 2, 1);
  for (LinkCost& link : problem.links.each()) link = Link(0.5, kMessageBytes / 0.25, kInstant);
  // The tied embedding is summed over both stages in two rounds; the scalars, seven of 8 bytes, go each way
  // at the same time.
  const auto prediction = PredictStep(problem, Pipeline({2, 4}, 1, Schedule::kOneForwardOneBackward));
  REQUIRE(prediction.ok());
  CHECK(prediction->step_seconds ==
        Approx(2 * 3 + 2 * 0.75 + 2 * 0.5 + (0.5 + 7 * 8 / kMessageBytes * 0.25)).epsilon(1e-12));
}

TEST_CASE("messages that leave one device at once share its sending") {
  // Messages take longer than passes, so the middle stage sends an activation and a gradient at the same
  // time.
  PlanningProblem problem = Uniform(3, 3, 6);
  for (LinkCost& link : problem.links.each()) link.transfer = LinkModel::Line(0, kMessageBytes / 4);
  const Plan plan = Pipeline({2, 3, 5}, 6, Schedule::kOneForwardOneBackward);
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.ok());
  const StepProgram program = CompileStep(plan, 1, problem.shape, Purpose::kTrain);
  std::vector<InstructionTime> sends;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const InstructionKind kind = program.instructions[i].kind;
    if (kind != InstructionKind::kSendActivation && kind != InstructionKind::kSendGradient) continue;
    sends.push_back(prediction->ranks[1].timeline[i]);
  }
  REQUIRE(sends.size() == 12);
  std::sort(sends.begin(), sends.end(), [](const InstructionTime& a, const InstructionTime& b) {
    return a.start_seconds < b.start_seconds;
  });
  bool overlapped = false;
  double sending_seconds = 0, sent_until = 0;
  for (const InstructionTime& send : sends) {
    overlapped = overlapped || send.start_seconds < sent_until;
    sending_seconds += std::max(0.0, send.end_seconds - std::max(send.start_seconds, sent_until));
    sent_until = std::max(sent_until, send.end_seconds);
  }
  CHECK(overlapped);
  // Two at once take as long as one after the other.
  CHECK(sending_seconds >= 12 * 4 * (1 - 1e-12));
}

TEST_CASE("replicas wait for the slowest and sum their gradients in a ring") {
  PlanningProblem problem = Uniform(3, 2, 7);
  problem.forced_all_reduce = CollectiveAlgorithm::kRing;
  const double bytes = 4.0 * static_cast<double>(ModelElements(problem.shape.model));
  for (LinkCost& link : problem.links.each()) link = Link(0.01, kInstant, bytes / 2);
  // In three buckets, from the last: the head and the second layer, while the first layer's backward runs for
  // 2 s; the first layer; the embeddings.
  const std::vector<GradientSlice> buckets = SlicesOf(Replicas(4, {2, 5}), 0, problem.shape.model);
  REQUIRE(buckets.size() == 3);
  REQUIRE(buckets[0].completed_by == 2);
  const auto share = [&](int bucket) { return 4.0 * static_cast<double>(buckets[bucket].elements) / bytes; };
  SECTION("two: the vector's bytes at the measured rate, the first bucket hidden behind the backward") {
    const auto seconds = PredictStepSeconds(problem, Replicas(4, {2, 5}));
    REQUIRE(seconds.ok());
    CHECK(*seconds == Approx(5 * 6 + 2 * (2 * 0.01) + 2 * (share(1) + share(2)) + 0.01).epsilon(1e-12));
  }
  SECTION(
      "two that shard the optimizer: half of each sum is a gathering of what each owns, which the first "
      "forward waits for") {
    Plan plan = Replicas(4, {2, 5});
    plan.shards_optimizer = true;
    plan.units[1].optimizer_weight = 3;
    for (DeviceCost& device : problem.devices) {
      device.norm_seconds_per_parameter = 1e-3;
      device.update_seconds_per_parameter = 2e-3;
    }
    const auto seconds = PredictStepSeconds(problem, plan);
    REQUIRE(seconds.ok());
    double owned = 0;
    for (const GradientSlice& slice : SlicesOf(plan, 1, problem.shape.model))
      owned += static_cast<double>(OwnedRange(slice, 1).size());
    CHECK(owned == Approx(0.75 * static_cast<double>(ModelElements(problem.shape.model))).epsilon(1e-2));
    // Three quarters go one way, where even parts would be halves. What the second layer uses comes while the first one is computed for 1 s.
    const double exchanged = 2 * 0.01 + 1.5 * (share(1) + share(2));
    CHECK(*seconds == Approx(5 * 6 + 2 * exchanged + 3e-3 * owned + 0.01).epsilon(1e-12));
    // By kinds of routes, too.
    const auto by_kinds = AlikeRoutePredictor(problem).Predict(plan);
    REQUIRE(by_kinds.ok());
    CHECK(*by_kinds == Approx(*seconds).epsilon(1e-3));
  }
  SECTION("three: four rounds of a third, as slow as the slowest link, longer than the backward beside it") {
    for (LinkCost& link : problem.links.each()) link = Link(0, kInstant, bytes / 2);
    problem.links.Mutable(1, 2).exchange = LinkModel::Line(0, bytes / 6);
    const auto seconds = PredictStepSeconds(problem, Replicas(4, {2, 4, 1}));
    REQUIRE(seconds.ok());
    CHECK(*seconds == Approx(4 * 6 - 2 + 4 * 2).epsilon(1e-3));  // elements do not divide by three
  }
}

TEST_CASE("two devices on one processor take the sum of their work") {
  PlanningProblem problem = Uniform(2, 2, 8);
  problem.devices[1].processor = problem.devices[0].processor;
  const auto prediction = PredictStep(problem, Replicas(4, {3, 5}));
  REQUIRE(prediction.ok());
  CHECK(prediction->step_seconds == Approx(8 * 6).epsilon(1e-12));
  // Half as fast while both compute.
  CHECK(prediction->ranks[0].busy_seconds == Approx(2 * 3 * 6).epsilon(1e-12));
  problem.devices[1].processor = 7;
  CHECK(*PredictStepSeconds(problem, Replicas(4, {3, 5})) == Approx(5 * 6).epsilon(1e-12));
}

// Everybody's message to everybody else, started at once: after its latency each goes at its rate over the
// larger number of messages under way at its ends. Small steps of time; nothing of the predictor's is used.
double AllToAllSeconds(const PlanningProblem& problem, int members, double bytes) {
  struct Message {
    int from, to;
    double latency_seconds, left_seconds;
  };
  std::vector<Message> messages;
  double slowest = 0;
  for (int a = 0; a < members; ++a) {
    for (int b = 0; b < members; ++b) {
      if (a == b) continue;
      const LinkModel& model = problem.links.Between(a, b).transfer;
      messages.push_back({a, b, model.Seconds(0), model.Seconds(bytes) - model.Seconds(0)});
      slowest = std::max(slowest, model.Seconds(bytes));
    }
  }
  const double tick = slowest / 20'000;
  double now = 0;
  for (bool going_on = true; going_on; now += tick) {
    std::vector<int> sending(members, 0), receiving(members, 0);
    for (const Message& m : messages) {
      if (m.left_seconds <= 0 || now < m.latency_seconds) continue;
      ++sending[m.from];
      ++receiving[m.to];
    }
    going_on = false;
    for (Message& m : messages) {
      if (m.left_seconds > 0 && now >= m.latency_seconds)
        m.left_seconds -= tick / std::max(sending[m.from], receiving[m.to]);
      if (m.left_seconds > 0 || now < m.latency_seconds) going_on = true;
    }
  }
  return now;
}

// What the sum of the scalars takes.
double ScalarsSeconds(const PlanningProblem& problem, const Plan& plan, const StepPrediction& prediction) {
  const StepProgram program = CompileStep(plan, 0, problem.shape, Purpose::kTrain);
  double seconds = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].kind != InstructionKind::kReduceScalars) continue;
    const InstructionTime& time = prediction.ranks[0].timeline[i];
    seconds = time.end_seconds - time.start_seconds;
  }
  return seconds;
}

TEST_CASE("the scalars' exchange is one round of messages between up to eight") {
  const uint64_t seed = GENERATE(range(uint64_t{0}, uint64_t{40}));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  const int members = 2 + static_cast<int>(random() % 4);
  const bool alike = seed % 2 == 0;
  PlanningProblem problem = Uniform(members, 2, members);
  // Norms of four blocks and the tied embedding, the loss, the wishes to finish early.
  const double bytes = 8 * 7;
  const double latency_seconds = real(0.1, 1), rate = bytes / real(0.01, 1);
  for (int a = 0; a < members; ++a) {
    for (int b = 0; b < a; ++b) {
      const double factor = alike ? 1 : real(0.5, 2);
      problem.links.Set(a, b, {LinkModel::Line(latency_seconds * factor, rate * factor), {}});
    }
  }
  const Plan plan = Replicas(4, std::vector<int>(members, 1));
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.ok());
  const double predicted = ScalarsSeconds(problem, plan, *prediction);
  const double simulated = AllToAllSeconds(problem, members, bytes);
  // Where links differ the prediction is what the busiest end takes at least.
  CHECK(predicted <= simulated * 1.001);
  CHECK(predicted >= simulated * (alike ? 0.999 : 0.6));
}

TEST_CASE("the scalars of more than eight are gathered, exchanged and spread by eights") {
  constexpr int kMembers = 20;
  PlanningProblem problem = Uniform(kMembers, 2, kMembers);
  const double bytes = 8 * 7, latency_seconds = 0.5, message_seconds = 0.25;
  for (LinkCost& link : problem.links.each())
    link = {LinkModel::Line(latency_seconds, bytes / message_seconds), {}};
  const Plan plan = Replicas(4, std::vector<int>(kMembers, 1));
  const auto predicted_seconds = [&] {
    const auto prediction = PredictStep(problem, plan);
    REQUIRE(prediction.ok());
    return ScalarsSeconds(problem, plan, *prediction);
  };
  // To 0, 8 and 16, the most from seven; these three among each other; and back.
  const double even_seconds = 3 * latency_seconds + (7 + 2 + 7) * message_seconds;
  CHECK(predicted_seconds() == Approx(even_seconds).epsilon(1e-12));
  // 16 has three to hear of, and is not the last.
  problem.links.Mutable(19, 16).transfer =
      LinkModel::Line(latency_seconds + 3 * message_seconds, bytes / message_seconds);
  CHECK(predicted_seconds() == Approx(even_seconds).epsilon(1e-12));
  // Nobody gives 9 anything but 8.
  problem.links.Mutable(1, 9).transfer = LinkModel::Line(100, 1);
  CHECK(predicted_seconds() == Approx(even_seconds).epsilon(1e-12));
  problem.links.Mutable(8, 9).transfer = LinkModel::Line(100, bytes / message_seconds);
  CHECK(predicted_seconds() ==
        Approx(latency_seconds + 2 * message_seconds + 2 * (100 + message_seconds)).epsilon(1e-12));
}

TEST_CASE("devices of a host slow each other down while they compute at the same time") {
  PlanningProblem problem = Uniform(3, 2, 8);
  for (DeviceCost& device : problem.devices) {
    device.host = 4;
    device.shared_slowdown = 1.5;
    device.shared_with = 2;
  }
  // One device alone is as fast as ever.
  CHECK(*PredictStepSeconds(problem, Replicas(4, {8})) == Approx(8 * 6).epsilon(1e-12));
  // Two of three: half of the slow-down, until one has nothing left to do.
  const auto two = PredictStep(problem, Replicas(4, {3, 5}));
  REQUIRE(two.ok());
  CHECK(two->step_seconds == Approx(3 * 6 * 1.25 + 2 * 6).epsilon(1e-12));
  CHECK(two->ranks[0].busy_seconds == Approx(3 * 6 * 1.25).epsilon(1e-12));
  // All three: all of it, then half, then none.
  CHECK(*PredictStepSeconds(problem, Replicas(4, {1, 2, 5})) ==
        Approx(6 * 1.5 + 6 * 1.25 + 3 * 6).epsilon(1e-12));
  // Norms and updates, which memory bounds, by a factor of their own.
  PlanningProblem updates = problem;
  for (DeviceCost& device : updates.devices) {
    device.shared_slowdown = 1;
    device.update_seconds_per_parameter = 2e-3;
  }
  const double even_seconds = *PredictStepSeconds(updates, Replicas(4, {4, 4}));
  for (DeviceCost& device : updates.devices) device.shared_update_slowdown = 3;
  const double slowed_seconds = *PredictStepSeconds(updates, Replicas(4, {4, 4}));
  const double of_updates = even_seconds - 4 * 6;
  CHECK(of_updates > 0);
  CHECK(slowed_seconds ==
        Approx(4 * 6 + 2 * of_updates).epsilon(1e-12));  // one of two others: 1 + (3 - 1) / 2
  // A device of another host takes no part, nor one that was not measured with them.
  problem.devices[1].host = 5;
  CHECK(*PredictStepSeconds(problem, Replicas(4, {3, 5})) == Approx(5 * 6).epsilon(1e-12));
  problem.devices[1].host = 4;
  problem.devices[1].shared_slowdown = 1;
  problem.devices[1].shared_with = 0;
  CHECK(*PredictStepSeconds(problem, Replicas(4, {3, 5})) == Approx(5 * 6).epsilon(1e-12));
}

TEST_CASE("each route's passes and messages are those of its own micro-batch size") {
  PlanningProblem problem = Uniform(3, 2, 5);
  problem.micro_batch_sizes = {1, 3};
  for (DeviceCost& device : problem.devices) {
    device.times.push_back(device.times[0]);
    for (PassTimes* pass : {&device.times[1].embedding, &device.times[1].layer, &device.times[1].head}) {
      pass->forward_seconds *= 3;
      pass->backward_seconds *= 3;
    }
  }
  Plan plan = Pipeline({2, 4}, 2, Schedule::kOneForwardOneBackward);
  plan.units.push_back({{"d2"}, {{0, 4}}});
  plan.routes.push_back({{2}, 1, 3});
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.status().ToString() == "OK");
  const StepProgram small = CompileStep(plan, 0, problem.shape, Purpose::kTrain),
                    large = CompileStep(plan, 2, problem.shape, Purpose::kTrain);
  CHECK(small.visits[0].first_sequence == 0);
  CHECK(large.visits[0].first_sequence == 2);
  for (const Instruction& i : small.instructions) {
    if (i.peer >= 0) CHECK(static_cast<double>(i.bytes.value) == kMessageBytes);
  }
  const InstructionTime forward = prediction->ranks[2].timeline[0];
  REQUIRE(large.instructions[0].kind == InstructionKind::kForward);
  CHECK(forward.end_seconds - forward.start_seconds == Approx(3 * 2));  // two layers of a second
  CHECK(prediction->ranks[2].memory.activations.value > 2 * prediction->ranks[0].memory.activations.value);
}

TEST_CASE("every instruction has a time, in the order of its stream") {
  PlanningProblem problem = Uniform(3, 4, 5);
  for (LinkCost& link : problem.links.each()) link = Link(0.1, kMessageBytes / 0.3, 1000);
  Plan plan = Pipeline({2, 6}, 3, Schedule::kOneForwardOneBackward);
  plan.units.push_back({{"d2"}, {{0, 6}}});
  plan.routes.push_back({{2}, 2, 1});
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.ok());
  double last = 0;
  for (int u = 0; u < 3; ++u) {
    const StepProgram program = CompileStep(plan, u, problem.shape, Purpose::kTrain);
    REQUIRE(prediction->ranks[u].timeline.size() == program.instructions.size());
    std::vector<double> free_at(kStreams, 0);
    for (size_t i = 0; i < program.instructions.size(); ++i) {
      const InstructionTime time = prediction->ranks[u].timeline[i];
      double& free = free_at[static_cast<int>(program.instructions[i].stream)];
      CHECK(time.start_seconds >= free);
      CHECK(time.end_seconds >= time.start_seconds);
      free = time.end_seconds;
      for (const int other : program.instructions[i].waits_for) {
        if (other >= 0) CHECK(time.start_seconds >= prediction->ranks[u].timeline[other].end_seconds);
      }
      last = std::max(last, time.end_seconds);
    }
  }
  CHECK(prediction->step_seconds == last);
  CHECK(*PredictStepSeconds(problem, plan) == last);
}

TEST_CASE("memory is the model's, with the ops' workspace and copies") {
  PlanningProblem problem = Uniform(1, 2, 2);
  problem.devices[0].room.workspace = {1000};
  problem.devices[0].room.copy_bytes_per_parameter = 2;
  const auto prediction = PredictStep(problem, Replicas(4, {2}));
  REQUIRE(prediction.ok());
  const RankPrediction& unit = prediction->ranks[0];
  CHECK(unit.peak_memory == unit.memory.total() + Bytes{1000 + 2 * unit.memory.multiplied});
  CHECK(unit.memory_limit == GiB(1));
  // Whether a buffer is too large changes nothing of it.
  problem.devices[0].room.largest_buffer = {1};
  CHECK(PredictStep(problem, Replicas(4, {2}))->ranks[0].peak_memory == unit.peak_memory);
}

TEST_CASE("a unit with two ranges passes a micro-batch twice, and its messages with it") {
  PlanningProblem problem = Uniform(2, 4, 1);
  for (LinkCost& link : problem.links.each()) link.transfer = LinkModel::Line(0.5, kMessageBytes / 0.25);
  Plan plan;
  plan.units = {{{"d0"}, {{0, 2}, {4, 6}}}, {{"d1"}, {{2, 4}}}};
  plan.routes = {{{0, 1, 0}, 1, 1}};
  const auto prediction = PredictStep(problem, plan);
  REQUIRE(prediction.status().ToString() == "OK");
  const double scalars = 0.5 + 9 * 8 / kMessageBytes * 0.25;
  CHECK(prediction->step_seconds == Approx(4 * 3 + 2 * 2 * 0.75 + scalars).epsilon(1e-12));
  CHECK(prediction->ranks[0].busy_seconds == Approx(2 * 3).epsilon(1e-12));
}

// Uniform, whose first devices have been measured with `shares`, each taking `seconds` of whole blocks.
PlanningProblem Shared(PlanningProblem problem, const std::vector<std::pair<ModelShare, double>>& shares) {
  for (size_t d = 0; d < shares.size(); ++d) {
    const auto& [share, part] = shares[d];
    ShareCost& cost = problem.devices[d].shares.emplace_back();
    cost.share = AtOrigin(share);
    cost.room = problem.devices[d].room;
    cost.times = problem.devices[d].times;
    for (BlockTimes& times : cost.times) {
      for (PassTimes* pass : {&times.embedding, &times.layer, &times.head}) {
        pass->forward_seconds *= part;
        pass->backward_seconds *= part;
        pass->weight_gradient_seconds *= part;
      }
    }
  }
  return problem;
}

PlanningProblem WithHeads(PlanningProblem problem, int heads) {
  problem.shape.model.heads = heads;
  return problem;
}

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

TEST_CASE("replicas sum gradients by a library as it was measured, but where a unit exchanges by it") {
  PlanningProblem problem = WithHeads(Uniform(3, 2, 6), 2);
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem = Shared(std::move(problem), {{shares[0], 0.5}, {shares[1], 0.5}, {shares[1], 0.5}});
  for (DeviceCost& device : problem.devices) {
    device.has_own_memory = true;
    device.group_library = "NCCL 2.28.3";
  }
  const auto step_seconds = [&](const Plan& plan) {
    const absl::StatusOr<double> seconds = PredictStepSeconds(problem, plan);
    REQUIRE(seconds.status().ToString() == "OK");
    return *seconds;
  };
  const Plan single = Replicas(4, {3, 3});
  Plan shared = single;
  shared.units[0].devices = {"d0", "d2"};
  const double single_seconds = step_seconds(single), shared_seconds = step_seconds(shared);
  CHECK(*AlikeRoutePredictor(problem).Predict(single) == Approx(single_seconds));
  problem.links.Mutable(0, 1).all_reduce = problem.links.Mutable(1, 2).all_reduce = {{2, {{{0, 0.25}}}}};
  CHECK(step_seconds(single) >= single_seconds + 0.25);
  CHECK(*AlikeRoutePredictor(problem).Predict(single) == Approx(step_seconds(single)));
  CHECK(step_seconds(shared) == shared_seconds);
}

TEST_CASE("of replicas of which one has layers in host memory the hosts sum these, and a library the rest") {
  PlanningProblem problem = Uniform(2, 6, 6);
  for (DeviceCost& device : problem.devices) {
    device.has_own_memory = true;
    device.group_library = "NCCL 2.28.3";
    device.fetch_bytes_per_second = device.store_bytes_per_second = 1e15;
  }
  constexpr double kSumSeconds = 1e5;  // all passes take less than a minute
  for (LinkCost& link : problem.links.each()) link.all_reduce = {{2, {{{0, kSumSeconds}}}}};
  Plan plan = Replicas(8, {3, 3});
  plan.schedule = Schedule::kGPipe;
  for (const bool in_host_memory : {false, true}) {
    CAPTURE(in_host_memory);
    plan.units[0].window_layers = in_host_memory ? 2 : 0;
    int by_library = 0;
    for (const GradientSlice& slice : SlicesOf(plan, 1, problem.shape.model))
      by_library += slice.sums_on_hosts ? 0 : 1;
    REQUIRE(by_library > 0);
    const absl::StatusOr<double> simulated = PredictStepSeconds(problem, plan),
                                 alike = AlikeRoutePredictor(problem).Predict(plan);
    REQUIRE(simulated.status().ToString() == "OK");
    REQUIRE(alike.status().ToString() == "OK");
    CHECK(*simulated == Approx(kSumSeconds * by_library).epsilon(0.001));
    CHECK(*alike == Approx(kSumSeconds * by_library).epsilon(0.001));
  }
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

TEST_CASE(
    "a layer on the host that is shared in parts is counted and updated as far as its rank answers for it") {
  // One device with windows, beside two that cut the same layers in two: each layer is summed in parts.
  PlanningProblem problem = WithHeads(Uniform(3, 4, 4), 2);
  const std::vector<ModelShare> shares = EvenShares(problem.shape.model, 2);
  problem =
      Shared(std::move(problem), {{WholeModel(problem.shape.model), 1}, {shares[0], 0.5}, {shares[1], 0.5}});
  DeviceCost& device = problem.devices[0];
  device.fetch_bytes_per_second = device.store_bytes_per_second = 1e15;
  for (const bool is_first : {true, false}) {
    for (const bool shards : {true, false}) {
      CAPTURE(is_first, shards);
      Plan plan{.shards_optimizer = shards};
      plan.units.push_back(
          {.devices = {"d0"}, .chunks = {{0, 6}}, .optimizer_weight = 3, .window_layers = 2});
      plan.units.push_back({.devices = {"d1", "d2"}, .chunks = {{0, 6}}});
      if (!is_first) std::swap(plan.units[0], plan.units[1]);
      plan.routes = {{{0}, 2, 1}, {{1}, 2, 1}};
      const Rank rank = is_first ? 0 : 2;
      // What it updates and counts of its layers.
      double updated = 0, counted = 0;
      int parts = 0;
      for (const GradientSlice& slice : SlicesOf(plan, rank, problem.shape.model)) {
        if (!slice.in_host_memory) continue;
        ++parts;
        updated += static_cast<double>(OwnedRange(slice, rank).size());
        if (shards || slice.holders.front() == rank)
          counted += static_cast<double>(OwnedRange(slice, rank).size());
      }
      REQUIRE(parts > 4);
      for (double DeviceCost::*seconds :
           {&DeviceCost::update_seconds_per_parameter, &DeviceCost::norm_seconds_per_parameter}) {
        device.update_seconds_per_parameter = device.norm_seconds_per_parameter = 0;
        device.*seconds = 1e-3;
        const auto prediction = PredictStep(problem, plan);
        REQUIRE(prediction.status().ToString() == "OK");
        const bool updates = seconds == &DeviceCost::update_seconds_per_parameter;
        const InstructionKind kind =
            updates ? InstructionKind::kUpdateParameters : InstructionKind::kNormGradients;
        const StepProgram program = CompileStep(plan, rank, problem.shape, Purpose::kTrain);
        double taken = 0;
        for (size_t i = 0; i < program.instructions.size(); ++i) {
          const InstructionTime& time = prediction->ranks[rank].timeline[i];
          if (program.instructions[i].kind == kind && program.instructions[i].blocks.size() > 0)
            taken += time.end_seconds - time.start_seconds;
        }
        CHECK(taken == Approx(1e-3 * (updates ? updated : counted)));
      }
    }
  }
}

TEST_CASE("plans of every form are predicted: streams in order, the ranks of a unit together") {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    PlannedShape planned = RandomWidePlan(seed);
    if (seed % 3 == 0) MoveActivationsToHost(planned.plan, planned.shape.model, seed);
    const Plan& plan = planned.plan;
    std::mt19937_64 random(seed);
    const auto real = [&] { return std::uniform_real_distribution<double>(0.5, 2)(random); };
    PlanningProblem problem;
    problem.shape = planned.shape;
    problem.micro_batch_sizes = {1, 2, 3};
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      DeviceCost& device = problem.devices.emplace_back();
      device.name = DeviceOf(plan, rank);
      device.processor = rank;
      device.fetch_bytes_per_second = device.store_bytes_per_second = 1e4;
      ShareCost cost{.share = AtOrigin(ShareOf(plan, rank, planned.shape.model))};
      for (int size = 1; size <= 3; ++size) {
        const double layer = size * real();
        cost.times.push_back({{0.1, 0.2, 0.2}, {layer, 2 * layer, layer}, {0, 0.5, 0}});
      }
      cost.update_seconds_per_parameter = 1e-6;
      if (cost.share == WholeModel(planned.shape.model)) device.times = cost.times;
      device.shares.push_back(cost);
    }
    problem.links = DeviceLinks(static_cast<int>(problem.devices.size()));
    for (LinkCost& link : problem.links.each()) link = Link(0.01 * real(), 1000, 2000);
    const auto prediction = PredictStep(problem, plan);
    REQUIRE(prediction.status().ToString() == "OK");
    CHECK(*PredictStepSeconds(problem, plan) == prediction->step_seconds);
    for (Rank rank = 0; rank < RankCount(plan); ++rank) {
      const StepProgram program = CompileStep(plan, rank, planned.shape, Purpose::kTrain);
      const std::vector<InstructionTime>& timeline = prediction->ranks[rank].timeline;
      REQUIRE(timeline.size() == program.instructions.size());
      std::vector<double> free_at(kStreams, 0);
      for (size_t i = 0; i < timeline.size(); ++i) {
        double& free = free_at[static_cast<int>(program.instructions[i].stream)];
        CHECK(timeline[i].start_seconds >= free);
        CHECK(timeline[i].end_seconds >= timeline[i].start_seconds);
        free = timeline[i].end_seconds;
        for (const int other : program.instructions[i].waits_for) {
          if (other >= 0) CHECK(timeline[i].start_seconds >= timeline[other].end_seconds);
        }
      }
      CHECK(prediction->ranks[rank].busy_seconds > 0);
      const int members = static_cast<int>(plan.units[program.unit].devices.size());
      CHECK((prediction->ranks[rank].exchange_seconds > 1e-9) == (members > 1));
      // Passes within which its ranks sum end for all of them at once.
      const Rank first = FirstRankOf(plan, program.unit);
      if (rank == first) continue;
      const StepProgram beside = CompileStep(plan, first, planned.shape, Purpose::kTrain);
      std::vector<double> own, others;
      for (size_t i = 0; i < timeline.size(); ++i) {
        if (program.instructions[i].kind == InstructionKind::kInputGradient)
          own.push_back(timeline[i].end_seconds);
      }
      for (size_t i = 0; i < beside.instructions.size(); ++i) {
        if (beside.instructions[i].kind == InstructionKind::kInputGradient &&
            !beside.instructions[i].blocks.contains(0))
          others.push_back(prediction->ranks[first].timeline[i].end_seconds);
      }
      for (const double end : others) CHECK(std::find(own.begin(), own.end(), end) != own.end());
    }
  }
}

TEST_CASE("what the problem does not know is refused by name") {
  const PlanningProblem problem = Uniform(1, 2, 2);
  Plan plan = Replicas(4, {2});
  plan.units[0].devices[0] = "elsewhere";
  CHECK(absl::IsInvalidArgument(PredictStep(problem, plan).status()));
  CHECK_THAT(std::string(PredictStep(problem, plan).status().message()), Catch::Contains("elsewhere"));
  plan = Replicas(4, {1});
  plan.routes[0].micro_batch_sequences = 2;
  CHECK(absl::IsInvalidArgument(PredictStep(problem, plan).status()));
  plan = Replicas(4, {2});
  plan.units[0].devices.push_back("d1");
  PlanningProblem two = Uniform(2, 2, 2);
  two.shape.model.heads = 2;
  CHECK(PredictStep(two, plan).status().message() ==
        "units[0].devices: d0 has not been measured with its share of the blocks' width");
  two.devices[0].times.clear();
  CHECK(PredictStep(two, Replicas(4, {2})).status().message() ==
        "units[0].devices: d0 has not been measured with whole blocks");
}

}  // namespace
}  // namespace medley
