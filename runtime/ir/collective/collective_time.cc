#include "runtime/ir/collective/collective_time.h"

#include <algorithm>
#include <limits>

#include "runtime/ir/collective/all_reduce_schedule.h"
#include "runtime/ir/collective/message_clock.h"
#include "runtime/ir/collective/step_dependencies.h"

namespace medley {
namespace {

using Times = MessageClock::Times;

constexpr Times kNotYet{-1, -1};

struct Member {
  std::vector<std::vector<int>> dependencies;
  std::vector<Times> times;              // by step
  size_t begin = 0, end = 0;             // steps of the present round
  bool sends = false, receives = false;  // in it
};

class Simulation {
 public:
  Simulation(const CollectiveProblem& problem, const CollectiveSchedule& schedule)
      : schedule_(schedule), clock_(problem), members_(schedule.members) {
    for (int i = 0; i < schedule.members; ++i) {
      members_[i].dependencies = StepDependencies(schedule.steps[i]);
      members_[i].times.resize(schedule.steps[i].size(), kNotYet);
    }
  }

  double Run() {
    while (NextRound()) {
      for (int from = 0; from < schedule_.members; ++from) {
        for (size_t i = members_[from].begin; i < members_[from].end; ++i) {
          if (schedule_.steps[from][i].Sends()) Send(from, i);
        }
      }
    }
    return last_;
  }

 private:
  bool NextRound() {
    int round = std::numeric_limits<int>::max();
    for (int i = 0; i < schedule_.members; ++i) {
      const std::vector<CollectiveStep>& steps = schedule_.steps[i];
      if (members_[i].end < steps.size()) round = std::min(round, steps[members_[i].end].round);
    }
    for (int i = 0; i < schedule_.members; ++i) {
      const std::vector<CollectiveStep>& steps = schedule_.steps[i];
      Member& member = members_[i];
      member.begin = member.end;
      member.sends = member.receives = false;
      for (; member.end < steps.size() && steps[member.end].round == round; ++member.end) {
        (steps[member.end].Sends() ? member.sends : member.receives) = true;
      }
    }
    return round != std::numeric_limits<int>::max();
  }

  // Its other end: the first receive of the round from `from` that has not been taken.
  size_t ReceiveOf(int from, int to) {
    const std::vector<CollectiveStep>& steps = schedule_.steps[to];
    Member& member = members_[to];
    for (size_t i = member.begin; i < member.end; ++i) {
      if (steps[i].Sends() || steps[i].peer != from || member.times[i].last_seconds >= 0) continue;
      return i;
    }
    return member.begin;
  }

  void Send(int from, size_t send) {
    const CollectiveStep& step = schedule_.steps[from][send];
    Member &sender = members_[from], &receiver = members_[step.peer];
    const size_t receive = ReceiveOf(from, step.peer);
    Times ready;
    for (const int before : sender.dependencies[send]) ready.Follow(sender.times[before]);
    for (const int before : receiver.dependencies[receive]) ready.Follow(receiver.times[before]);
    const bool exchanged = sender.receives || receiver.sends;
    const Times times =
        clock_.Send(from, step.peer, clock_.CostOf(from, step.peer, step.range.size(), exchanged), ready);
    sender.times[send] = receiver.times[receive] = times;
    last_ = std::max(last_, times.last_seconds);
  }

  const CollectiveSchedule& schedule_;
  MessageClock clock_;
  std::vector<Member> members_;
  double last_ = 0;
};

}  // namespace

double CollectiveSeconds(const CollectiveProblem& problem, const CollectiveSchedule& schedule) {
  return Simulation(problem, schedule).Run();
}

double AllReduceSeconds(const CollectiveProblem& problem, const CollectiveChoice& choice) {
  if (choice.algorithm == CollectiveAlgorithm::kRing) return RingSeconds(problem, choice.shape);
  const absl::StatusOr<CollectiveSchedule> schedule =
      AllReduceSchedule(problem.members, problem.elements, choice);
  return schedule.ok() ? CollectiveSeconds(problem, *schedule) : std::numeric_limits<double>::infinity();
}

}  // namespace medley
