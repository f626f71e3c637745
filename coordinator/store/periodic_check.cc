#include "coordinator/store/periodic_check.h"

namespace medley {

PeriodicCheck::PeriodicCheck(Store& store, absl::Duration every,
                             std::function<void(const absl::Status&)> told)
    : store_(store), every_(every), told_(std::move(told)), thread_([this] { Loop(); }) {}

PeriodicCheck::~PeriodicCheck() {
  stop_.Stop();
  thread_.join();
}

void PeriodicCheck::Loop() {
  while (stop_.SleepUnlessStopped(every_)) told_(store_.Check());
}

}  // namespace medley
