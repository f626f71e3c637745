// Prints what synthesised orders are worth on random uneven pipelines, one "key value" a line. All of it is
// predicted: no device computes. Shares are of the time that the busiest unit computes in a step ("bound").
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/quantile.h"
#include "runtime/ir/program/schedule.h"
#include "runtime/ir/program/synthesise_orders.h"

namespace medley {
namespace {

// What a unit may keep, in micro-batches.
enum class Memory {
  // What 1F1B keeps on it: as many as there are stages from it to the end. What a deferred weights' gradient
  // needs does not count, as in the published figures.
  kOf1F1B,
  // What 1F1B keeps on the first unit, on every unit, and kept until the weights' gradient, as here.
  kWhole,
};

struct Problem {
  TimedPipeline pipeline;
  SynthesisOptions options;
};

// Stages that each have a unit of their own; input's and weights' gradients as long as given.
Problem Pipeline(std::vector<TimedStage> stages, int micro_batches, Memory memory, int times) {
  Problem problem;
  const int count = static_cast<int>(stages.size());
  for (int s = 0; s < count; ++s) {
    stages[s].unit = s;
    stages[s].deferred = memory == Memory::kOf1F1B ? 0 : 1;
    problem.options.memory_limit.push_back(times * (memory == Memory::kOf1F1B ? count - s : count));
  }
  stages.back().message_seconds = 0;
  problem.pipeline = {count, {{std::move(stages), micro_batches}}};
  return problem;
}

// 4 to 16 stages, two to four times as many micro-batches; forwards 0.7 to 1.6, gradients 0.8 to 1.2 times
// as long each, messages 0.02 to 0.2.
Problem RandomPipeline(uint64_t seed, Memory memory, int times) {
  std::mt19937_64 random(seed);
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  std::vector<TimedStage> stages(4 + random() % 13);
  const int micro_batches = static_cast<int>(stages.size() * (2 + random() % 3));
  for (TimedStage& stage : stages) {
    stage.forward_seconds = real(0.7, 1.6);
    stage.input_gradient_seconds = stage.forward_seconds * real(0.8, 1.2);
    stage.weight_gradient_seconds = stage.forward_seconds * real(0.8, 1.2);
    stage.message_seconds = real(0.02, 0.2);
  }
  return Pipeline(std::move(stages), micro_batches, memory, times);
}

// The best period of the schedules with names that keep to the memory.
double BestNamedPeriod(const Problem& problem) {
  double best = std::numeric_limits<double>::infinity();
  for (int s = 0; s < kSchedules; ++s) {
    const Schedule schedule = static_cast<Schedule>(s);
    if (schedule == Schedule::kListed) continue;
    const OrderTimes times = EvaluateOrders(problem.pipeline, ScheduleOrders(schedule, problem.pipeline));
    bool fits = true;
    for (int u = 0; u < problem.pipeline.units; ++u)
      fits = fits && times.peak_kept[u] <= problem.options.memory_limit[u];
    if (fits) best = std::min(best, times.period_seconds);
  }
  return best;
}

double Period1F1B(const Problem& problem) {
  return EvaluateOrders(problem.pipeline, ScheduleOrders(Schedule::kOneForwardOneBackward, problem.pipeline))
      .period_seconds;
}

// The processor time of this process: others on the machine do not count.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Figures {
  std::vector<double> over_bound, over_least, makespan_over_bound, gain_over_1f1b, gain_over_named, seconds;
  int never_worse = 0, pipelines = 0;

  void Add(const Problem& problem) {
    const double begin = CpuSeconds();
    const SynthesisedOrders found = SynthesiseOrders(problem.pipeline, problem.options);
    seconds.push_back(CpuSeconds() - begin);
    const double bound = LongestWorkSeconds(problem.pipeline);
    over_bound.push_back(found.times.period_seconds / bound);
    over_least.push_back(found.times.period_seconds / found.least_seconds);
    makespan_over_bound.push_back(found.times.makespan_seconds / bound);
    gain_over_1f1b.push_back(Period1F1B(problem) / found.times.period_seconds);
    gain_over_named.push_back(BestNamedPeriod(problem) / found.times.period_seconds);
    never_worse += gain_over_named.back() >= 1 - 1e-9 ? 1 : 0;
    ++pipelines;
  }
};

Figures Measure(Memory memory, int times, OrderGoal goal) {
  Figures figures;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Problem problem = RandomPipeline(seed, memory, times);
    problem.options.goal = goal;
    figures.Add(problem);
  }
  return figures;
}

void Print(const std::string& key, double value) { std::printf("%s %.4f\n", key.c_str(), value); }

// Published stage times: gradients as long as forwards, messages of 0.1.
void PrintCase(const std::string& name, std::initializer_list<double> seconds, int micro_batches) {
  std::vector<TimedStage> stages;
  for (const double each : seconds) {
    stages.push_back({.forward_seconds = each,
                      .input_gradient_seconds = each,
                      .weight_gradient_seconds = each,
                      .message_seconds = 0.1});
  }
  const Problem once = Pipeline(stages, micro_batches, Memory::kOf1F1B, 1),
                twice = Pipeline(stages, micro_batches, Memory::kOf1F1B, 2);
  const double bound = LongestWorkSeconds(once.pipeline);
  Print(name + "_1f1b", Period1F1B(once) / bound);
  for (const auto& [suffix, problem] : {std::pair("", &once), std::pair("_twice_memory", &twice)}) {
    const SynthesisedOrders found = SynthesiseOrders(problem->pipeline, problem->options);
    Print(name + suffix, found.times.period_seconds / bound);
  }
}

void PrintFigures() {
  const Figures once = Measure(Memory::kOf1F1B, 1, OrderGoal::kPeriod),
                twice = Measure(Memory::kOf1F1B, 2, OrderGoal::kPeriod),
                whole = Measure(Memory::kWhole, 1, OrderGoal::kPeriod),
                whole_twice = Measure(Memory::kWhole, 2, OrderGoal::kPeriod),
                makespan = Measure(Memory::kOf1F1B, 1, OrderGoal::kMakespan);
  Print("period_over_bound", Median(once.over_bound));
  Print("period_over_bound_twice_memory", Median(twice.over_bound));
  Print("never_worse_share",
        static_cast<double>(once.never_worse + twice.never_worse + whole.never_worse +
                            whole_twice.never_worse) /
            (once.pipelines + twice.pipelines + whole.pipelines + whole_twice.pipelines));
  Print("gain_over_1f1b", Median(once.gain_over_1f1b));
  Print("gain_over_best_named", Median(once.gain_over_named));
  Print("makespan_over_bound", Median(makespan.makespan_over_bound));
  std::printf("# of orders sought for their period: makespan_over_bound %.4f\n",
              Median(once.makespan_over_bound));
  Print("period_over_least", Median(once.over_least));
  Print("period_over_least_worst", *std::max_element(once.over_least.begin(), once.over_least.end()));
  Print("period_over_bound_worst", *std::max_element(once.over_bound.begin(), once.over_bound.end()));
  Print("whole_period_over_bound", Median(whole.over_bound));
  Print("whole_period_over_bound_twice_memory", Median(whole_twice.over_bound));
  Print("whole_gain_over_1f1b", Median(whole.gain_over_1f1b));
  Print("whole_period_over_least", Median(whole.over_least));
  Print("seconds_per_synthesis", Median(once.seconds));
  Print("seconds_per_synthesis_worst", *std::max_element(once.seconds.begin(), once.seconds.end()));
}

}  // namespace
}  // namespace medley

int main() {
  medley::PrintCase("four_stages", {1, 1.3, 0.8, 1.6}, 8);
  medley::PrintCase("eight_stages", {1, 1, 1.15, 1.15, 0.9, 0.9, 1.2, 1.05}, 24);
  medley::PrintCase("eight_equal_stages", {1, 1, 1, 1, 1, 1, 1, 1}, 16);
  medley::PrintFigures();
  return 0;
}
