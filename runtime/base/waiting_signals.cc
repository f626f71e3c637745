#include "runtime/base/waiting_signals.h"

#include <ucontext.h>
#include <unistd.h>

#include <cerrno>

namespace medley {
namespace {

sigset_t waiting_signals;  // all there are; written before anything is handled

// Calls nothing but what signal handlers may.
void PassOn(int signal, siginfo_t*, void* context) {
  const int error = errno;
  // The mask of the thread that it goes on with.
  sigset_t& mask = static_cast<ucontext_t*>(context)->uc_sigmask;
  sigorset(&mask, &mask, &waiting_signals);
  kill(getpid(), signal);
  errno = error;
}

}  // namespace

void KeepSignalsWaiting(const sigset_t& signals) {
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  sigorset(&waiting_signals, &waiting_signals, &signals);
  struct sigaction action = {};
  action.sa_sigaction = PassOn;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  action.sa_mask = waiting_signals;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigismember(&signals, signal) == 1) sigaction(signal, &action, nullptr);
  }
}

}  // namespace medley
