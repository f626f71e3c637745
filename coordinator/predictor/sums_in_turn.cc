#include "coordinator/predictor/sums_in_turn.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <queue>

#include "coordinator/predictor/fluid_work.h"

namespace medley {
namespace {

class Turns {
 public:
  Turns(int holders, int ways, std::vector<SumInTurn>& sums)
      : sums_(sums), queues_(holders), behind_(sums.size()), wanted_(ways) {
    for (size_t i = 0; i < sums.size(); ++i) {
      behind_[i] = static_cast<int>(sums[i].holders.size());
      for (const int holder : sums[i].holders) queues_[holder].push(i);
    }
    for (const std::queue<size_t>& queue : queues_) ComeToFront(queue);
  }

  void Run() {
    double now = 0;
    while (!waiting_.empty() || !running_.empty()) {
      BeginReady(now);
      double next = std::numeric_limits<double>::infinity();
      for (const size_t i : waiting_) next = std::min(next, sums_[i].ready_seconds);
      for (Running& running : running_) {
        running.work.Share(wanted_.Slowdown(sums_[running.sum].way_parts), now);
        next = std::min(next, running.work.end_seconds);
      }
      now = next;
      EndDone(now);
    }
  }

 private:
  struct Running {
    size_t sum;
    FluidWork work;
  };

  // Of a holder: the next sum of all of its holders waits to be ready.
  void ComeToFront(const std::queue<size_t>& queue) {
    if (!queue.empty() && --behind_[queue.front()] == 0) waiting_.push_back(queue.front());
  }

  void BeginReady(double now) {
    std::erase_if(waiting_, [&](size_t i) {
      if (sums_[i].ready_seconds > now) return false;
      running_.push_back({i, FluidWork::Begin(now, sums_[i].work_seconds)});
      wanted_.Change(sums_[i].way_parts, 1);
      return true;
    });
  }

  void EndDone(double now) {
    std::vector<size_t> done;
    std::erase_if(running_, [&](const Running& running) {
      if (running.work.end_seconds > now) return false;
      done.push_back(running.sum);
      return true;
    });
    for (const size_t i : done) {
      sums_[i].end_seconds = now;
      wanted_.Change(sums_[i].way_parts, -1);
      for (const int holder : sums_[i].holders) {
        queues_[holder].pop();
        ComeToFront(queues_[holder]);
      }
    }
  }

  std::vector<SumInTurn>& sums_;
  std::vector<std::queue<size_t>> queues_;  // of each holder
  std::vector<int> behind_;                 // of each sum, in how many queues others are before it
  std::vector<size_t> waiting_;
  std::vector<Running> running_;
  WaysWanted wanted_;
};

}  // namespace

void RunInTurn(int holders, int ways, std::vector<SumInTurn>& sums) { Turns(holders, ways, sums).Run(); }

}  // namespace medley
