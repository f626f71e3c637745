// What messages between units take, and the exchange of scalars between all ranks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "coordinator/predictor/predict.h"
#include "coordinator/predictor/uniform_problem.h"

namespace medley {
namespace {

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

}  // namespace
}  // namespace medley
