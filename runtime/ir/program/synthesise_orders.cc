#include "runtime/ir/program/synthesise_orders.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "runtime/ir/program/list_schedule.h"
#include "runtime/ir/program/schedule.h"

namespace medley {
namespace {

constexpr int kJustifiedStarts = 8;
constexpr int kRounds = 5;            // of justification, while it helps
constexpr int kMostApartAtFirst = 2;  // backwards, where others are whole
constexpr double kLastShare = 0.005;  // of a step, by which the next is to be shorter

class Synthesis {
 public:
  Synthesis(const TimedPipeline& pipeline, const SynthesisOptions& options)
      : pipeline_(pipeline),
        options_(options),
        graph_(pipeline),
        evaluator_(graph_),
        onwards_(graph_, Direction::kOnwards),
        backwards_(graph_, Direction::kBackwards),
        random_(options.seed),
        from_zero_(graph_.units(), 0) {
    rule_.memory_limit = options.memory_limit;
    rule_.in_buffers = options.in_buffers;
    rule_.key.resize(graph_.passes());
    splitting_takes_time_ = std::any_of(graph_.stages().begin(), graph_.stages().end(),
                                        [](const auto& stage) { return stage.split_seconds > 0; });
    result_.least_seconds = LeastSeconds(pipeline, options.memory_limit, options.goal);
  }

  SynthesisedOrders Run() {
    TakeNamedSchedules();
    TakeListSchedules();
    std::stable_sort(starts_.begin(), starts_.end(),
                     [this](const Start& a, const Start& b) { return Better(a.times, b.times); });
    const int starts = std::min(kJustifiedStarts, static_cast<int>(starts_.size()));
    for (int i = 0; i < starts && !Done(); ++i) {
      Justify(starts_[i].orders, kRounds, 0, Deadline::kEnds);
      Justify(starts_[i].orders, kRounds, 0, Deadline::kPeriod);
    }
    if (splitting_takes_time_ && !best_.of_unit.empty()) ChooseWhole();
    for (int round = 0; starts > 0 && !Done(); ++round) {
      const PassOrders from = round % 3 < 2 ? best_ : starts_[Draw(starts)].orders;
      Justify(from, 2, 2 * Real(), round % 2 == 0 ? Deadline::kEnds : Deadline::kPeriod);
    }
    if (!best_.of_unit.empty()) {
      JoinGradients();
      result_.orders = OpsOf(graph_, best_);
    }
    return std::move(result_);
  }

 private:
  struct Start {
    PassOrders orders;
    OrderTimes times;
  };
  // Until when units' passes are to end, where they are placed as late as can be.
  enum class Deadline : uint8_t {
    kEnds,    // as they do
    kPeriod,  // also later, as long as the unit's span stays below the best one
  };

  static constexpr double kTolerance = 1e-9;
  // Of list schedules: forward, input's gradient, weights' gradient.
  static constexpr std::array<std::array<double, kPassKinds>, 4> kPrecedences = {
      {{1, 0, 2}, {2, 0, 1}, {0, 1, 2}, {0, 2, 1}}};

  double GoalOf(const OrderTimes& times) const {
    return options_.goal == OrderGoal::kPeriod ? times.period_seconds : times.makespan_seconds;
  }
  double OtherOf(const OrderTimes& times) const {
    return options_.goal == OrderGoal::kPeriod ? times.makespan_seconds : times.period_seconds;
  }
  bool Better(const OrderTimes& a, const OrderTimes& b) const {
    if (!b.complete || !a.complete) return a.complete && !b.complete;
    const double tolerance = kTolerance * result_.least_seconds;
    if (GoalOf(a) < GoalOf(b) - tolerance) return true;
    return GoalOf(a) < GoalOf(b) + tolerance && OtherOf(a) < OtherOf(b) - tolerance;
  }
  bool Done() const {
    return result_.simulated_passes >= options_.work_limit ||
           (result_.times.complete && GoalOf(result_.times) <= result_.least_seconds * (1 + 1e-6));
  }

  double Real() { return std::uniform_real_distribution<double>(0, 1)(random_); }
  int Draw(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }

  OrderTimes Evaluate(const PassOrders& orders) {
    OrderTimes times = evaluator_.Evaluate(orders);
    if (options_.in_buffers) times.peak_kept = PeakInBuffers(graph_, orders);
    return times;
  }
  bool Fits(const OrderTimes& times, UnitId unit) const {
    return times.peak_kept[unit] <= options_.memory_limit[unit] * (1 + kTolerance);
  }
  bool Fits(const OrderTimes& times) const {
    for (int u = 0; u < graph_.units(); ++u) {
      if (!Fits(times, u)) return false;
    }
    return true;
  }

  // Evaluates orders, keeps them if they are the best. Not complete: they do not fit.
  OrderTimes Take(const PassOrders& orders) {
    OrderTimes times = Evaluate(orders);
    result_.simulated_passes += 2 * graph_.passes();
    if (!Fits(times)) times.complete = false;
    if (times.complete && (best_.of_unit.empty() || Better(times, result_.times))) {
      best_ = orders;
      result_.times = times;
    }
    return times;
  }

  void TakeNamedSchedules() {
    FindWhole();
    const std::vector<char> all = WithWhole({}, /*of_unit=*/-1, /*apart=*/0);
    for (int s = 0; s < kSchedules; ++s) {
      const Schedule schedule = static_cast<Schedule>(s);
      if (schedule == Schedule::kListed) continue;
      const PassOrders orders = PassesOf(graph_, ScheduleOrders(schedule, pipeline_));
      Take(orders);
      PassOrders split = Split(orders, {});
      OrderTimes times = Take(split);
      if (!rule_.joined.empty()) {
        split = Split(orders, rule_.joined);
        times = Take(split);
      }
      if (times.complete) starts_.push_back({std::move(split), times});
      if (splitting_takes_time_) {
        PassOrders whole = Split(orders, all);
        times = Take(whole);
        if (times.complete) starts_.push_back({std::move(whole), times});
      }
    }
  }

  // `joined`, of each pass, with the backwards of a unit whole but for those of the last `apart` micro-batches of each of its stages;
  // -1: of all units.
  std::vector<char> WithWhole(std::vector<char> joined, int of_unit, int apart) const {
    joined.resize(graph_.passes(), 0);
    for (int pass = 0; pass < graph_.passes(); ++pass) {
      const PassGraph::Stage& stage = graph_.StageOf(pass);
      const auto& [s, kind, micro_batch] = graph_.pass(pass);
      if ((of_unit < 0 || stage.unit == of_unit) && kind == PassKind::kInputGradient)
        joined[pass] = micro_batch < stage.micro_batches - apart ? 1 : 0;
    }
    return joined;
  }

  // Unit by unit, as long as it helps: how many of its last backwards are made in two, so that others wait less; whole they take less
  // time.
  void ChooseWhole() {
    int most = 0;
    for (const PassGraph::Stage& stage : graph_.stages()) most = std::max(most, stage.micro_batches);
    for (bool helps = true; helps && !Done();) {
      helps = false;
      for (int u = 0; u < graph_.units() && !Done(); ++u) {
        for (int apart = 0; apart < 2 * most && !Done(); apart = std::max(1, 2 * apart)) {
          const PassOrders orders = Split(best_, WithWhole(best_.joined, u, apart));
          const OrderTimes before = result_.times;
          Take(orders);
          Justify(orders, 2, 0, Deadline::kEnds);
          Justify(orders, 2, 0, Deadline::kPeriod);
          helps = helps || Better(result_.times, before);
        }
      }
    }
  }

  // The backwards of units that have no memory for more than 1F1B keeps stay whole: what lies between the two gradients may need as
  // much again as what they are made of. Those of others are made in two all the same.
  void FindWhole() {
    const PassOrders orders = PassesOf(graph_, ScheduleOrders(Schedule::kOneForwardOneBackward, pipeline_));
    const OrderTimes times = Evaluate(Split(orders, {}));
    result_.simulated_passes += 2 * graph_.passes();
    std::vector<char> whole(graph_.passes(), 0);
    bool any = false;
    for (int pass = 0; pass < graph_.passes(); ++pass) {
      const UnitId unit = graph_.StageOf(pass).unit;
      if (graph_.pass(pass).kind != PassKind::kInputGradient || Fits(times, unit)) continue;
      whole[pass] = 1;
      any = true;
    }
    if (any) rule_.joined = std::move(whole);
  }

  // Each backward that is whole in two that stand side by side, but for those that `whole` names.
  PassOrders Split(PassOrders orders, const std::vector<char>& whole) const {
    std::vector<char> joined(graph_.passes(), 0);
    for (std::vector<int>& passes : orders.of_unit) {
      std::vector<int> split;
      for (const int pass : passes) {
        const auto& [stage, kind, micro_batch] = graph_.pass(pass);
        const int of_input = graph_.PassOf(stage, PassKind::kInputGradient, micro_batch);
        const bool stays = !whole.empty() && whole[of_input] != 0;
        if (stays && kind == PassKind::kWeightGradient) continue;
        split.push_back(pass);
        if (kind != PassKind::kInputGradient) continue;
        joined[pass] = stays ? 1 : 0;
        if (!stays && !orders.joined.empty() && orders.joined[pass] != 0)
          split.push_back(graph_.PassOf(stage, PassKind::kWeightGradient, micro_batch));
      }
      passes = std::move(split);
    }
    orders.joined = whole.empty() ? std::vector<char>() : std::move(joined);
    return orders;
  }

  // Gradients of inputs or forwards first; weights' gradients last or before what is least urgent; with all
  // of the memory and with less of it, so that no unit runs far ahead.
  void TakeListSchedules() {
    PassOrders orders;
    std::vector<std::vector<char>> choices = {rule_.joined};
    for (int apart = 0; splitting_takes_time_ && apart <= kMostApartAtFirst; apart += 2)
      choices.push_back(WithWhole({}, /*of_unit=*/-1, apart));
    for (const std::vector<char>& whole : choices) {
      rule_.joined = whole;
      ListByPrecedence(orders);
    }
    rule_.joined = choices.front();
  }

  void ListByPrecedence(PassOrders& orders) {
    for (const auto& precedence : kPrecedences) {
      for (const double share : {1.0, 0.75, 0.5}) {
        for (int u = 0; u < graph_.units(); ++u) {
          double least = 0;  // to get on at all
          for (const int stage : graph_.StagesOf(u)) {
            least = std::max({least, graph_.stages()[stage].kept, graph_.stages()[stage].deferred});
          }
          const double limit = options_.memory_limit[u];
          rule_.memory_limit[u] = std::max(limit * share, std::min(limit, least));
        }
        for (int pass = 0; pass < graph_.passes(); ++pass) {
          const PassGraph::Stage& stage = graph_.StageOf(pass);
          const auto& [s, kind, micro_batch] = graph_.pass(pass);
          // Of several routes in turn.
          const double turn = (micro_batch + 0.5) / stage.micro_batches;
          rule_.key[pass] = precedence[static_cast<int>(kind)] * 1e6 + stage.stages - stage.stage + turn;
        }
        if (!ListOnwards(orders)) continue;
        const OrderTimes times = Take(orders);
        if (times.complete) starts_.push_back({orders, times});
      }
    }
    rule_.memory_limit = options_.memory_limit;
  }

  // Where a unit has its memory full of forwards once more, which leave room.
  bool ListOnwards(PassOrders& orders) {
    for (const bool leaves_room : {false, true}) {
      if (leaves_room && rule_.in_buffers) break;  // there is one of each kind
      rule_.leaves_room = leaves_room;
      result_.simulated_passes += graph_.passes();
      if (ScheduleByList(graph_, rule_, from_zero_, onwards_, orders)) return true;
    }
    return false;
  }

  // Places all passes as late as `deadline` says, and then as soon as can be, the most urgent first; again, as
  // long as it helps and at most so many times. `blur`: by how much of its own time a pass may be taken for
  // more or less urgent.
  void Justify(PassOrders orders, int rounds, double blur, Deadline deadline) {
    const auto blurred = [&](int pass) {
      return blur == 0 ? 0 : blur * (Real() - 0.5) * graph_.seconds()[pass];
    };
    if (splitting_takes_time_) rule_.joined = orders.joined;
    OrderTimes times = evaluator_.Evaluate(orders), before = times;
    result_.simulated_passes += 2 * graph_.passes();
    for (int round = 0; round < rounds && !Done(); ++round) {
      result_.simulated_passes += graph_.passes();
      for (int pass = 0; pass < graph_.passes(); ++pass)
        rule_.key[pass] = blurred(pass) - evaluator_.soonest().EndOf(pass);
      if (!ScheduleByList(graph_, rule_, Deadlines(times, deadline), backwards_, orders)) return;
      Take(orders);
      for (int pass = 0; pass < graph_.passes(); ++pass)
        rule_.key[pass] = blurred(pass) - backwards_.EndOf(pass);
      if (!ListOnwards(orders)) return;
      times = Take(orders);
      if (!times.complete || (blur == 0 && !Better(times, before))) return;
      if (Better(times, before)) before = times;
    }
  }

  // When each unit's last pass is to end, backwards from zero.
  std::vector<double> Deadlines(const OrderTimes& times, Deadline deadline) const {
    const bool period = options_.goal == OrderGoal::kPeriod;
    const double wanted = std::max(result_.least_seconds, GoalOf(result_.times) * (1 - kLastShare));
    std::vector<double> from_end;
    for (int u = 0; u < graph_.units(); ++u) {
      double end = times.end_seconds[u];
      if (deadline == Deadline::kPeriod)
        end = period ? std::max(end, times.begin_seconds[u] + wanted) : times.makespan_seconds;
      from_end.push_back(-end);
    }
    return from_end;
  }

  // Where both parts of a backward stand side by side, they become one if nobody waits longer for it: one
  // submission less, and nothing kept between them.
  void JoinGradients() {
    for (int u = 0; u < graph_.units(); ++u) {
      PassOrders joined = best_;
      if (joined.joined.empty()) joined.joined.assign(graph_.passes(), 0);
      std::vector<int>& passes = joined.of_unit[u];
      std::vector<int> kept;
      for (size_t i = 0; i < passes.size(); ++i) {
        kept.push_back(passes[i]);
        const auto& [stage, kind, micro_batch] = graph_.pass(passes[i]);
        if (kind != PassKind::kInputGradient || joined.joined[passes[i]] != 0 || i + 1 == passes.size() ||
            passes[i + 1] != graph_.PassOf(stage, PassKind::kWeightGradient, micro_batch))
          continue;
        joined.joined[passes[i]] = 1;
        ++i;
      }
      if (kept.size() == passes.size()) continue;
      passes = std::move(kept);
      const OrderTimes times = Evaluate(joined);
      if (!times.complete || !Fits(times) || Better(result_.times, times)) continue;
      best_ = std::move(joined);
      result_.times = times;
    }
  }

  const TimedPipeline& pipeline_;
  const SynthesisOptions& options_;
  const PassGraph graph_;
  OrderEvaluator evaluator_;
  PassSimulation onwards_, backwards_;
  std::mt19937_64 random_;
  const std::vector<double> from_zero_;
  bool splitting_takes_time_ = false;
  ListRule rule_;  // its key changes from list schedule to list schedule
  std::vector<Start> starts_;
  PassOrders best_;
  SynthesisedOrders result_;
};

}  // namespace

SynthesisedOrders SynthesiseOrders(const TimedPipeline& pipeline, const SynthesisOptions& options) {
  return Synthesis(pipeline, options).Run();
}

}  // namespace medley
