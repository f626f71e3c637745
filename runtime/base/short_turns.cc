#include "runtime/base/short_turns.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace medley {
namespace {

constexpr uint64_t kTurnNanoseconds = 100'000;  // the shortest that there are

// The first version of the kernel's sched_attr; its header and libc's sched.h exclude each other.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_nanoseconds = 0, deadline_nanoseconds = 0, period_nanoseconds = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);
constexpr uint32_t kOrdinary = 0;  // SCHED_OTHER; turns of other policies are somebody's choice

}  // namespace

bool AskForShortTurns() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return false;
  if (attributes.policy != kOrdinary) return false;
  attributes.runtime_nanoseconds = kTurnNanoseconds;
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

}  // namespace medley
