#include "cli/interrupts.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <utility>

#include "absl/time/clock.h"
#include "runtime/base/clock.h"
#include "runtime/base/waiting_signals.h"

namespace medley {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(50);

}  // namespace

sigset_t Interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

void BlockInterrupts() { KeepSignalsWaiting(Interrupts()); }

Interrupter::Interrupter(std::function<void()> on_interrupt, std::function<void()> on_tick)
    : on_interrupt_(std::move(on_interrupt)), on_tick_(std::move(on_tick)), thread_([this] { Run(); }) {}

Interrupter::~Interrupter() {
  stop_ = true;
  thread_.join();
}

bool Interrupter::Sleep(absl::Duration duration) const {
  const absl::Time end = Now() + duration;
  while (!interrupted_ && Now() < end) absl::SleepFor(std::min(kTick, end - Now()));
  return !interrupted_;
}

void Interrupter::Run() {
  const sigset_t signals = Interrupts();
  const timespec tick = absl::ToTimespec(kTick);
  while (!stop_) {
    if (sigtimedwait(&signals, nullptr, &tick) > 0) {
      interrupted_ = true;
      if (on_interrupt_) on_interrupt_();
    }
    if (on_tick_) on_tick_();
  }
}

}  // namespace medley
