#include "runtime/base/stacks/thread_stacks.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "absl/strings/str_split.h"

namespace medley {

// With a name that stands in the table of symbols.
__attribute__((noinline)) int WaitsForTheTest(std::future<int>& future) {
  const int value = future.get();
  std::atomic_signal_fence(std::memory_order_seq_cst);  // no tail call
  return value;
}
__attribute__((noinline)) int RunsUntilTheTestEnds(const std::atomic<bool>& ends) {
  int rounds = 0;
  while (!ends) ++rounds;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return rounds;
}

namespace {

std::string ParagraphOf(const std::string& text, const std::string& name) {
  for (const auto paragraph : absl::StrSplit(text, "\n\n")) {
    if (paragraph.find("\"" + name + "\"") != std::string::npos) return std::string(paragraph);
  }
  return "";
}

TEST_CASE("threads that wait and threads that run say which functions they are in, and go on afterwards") {
  std::promise<int> promise;
  std::future<int> future = promise.get_future();
  std::atomic<bool> ends = false;
  std::atomic<int> ready = 0;
  int heard = 0;
  std::thread waiting([&] {
    pthread_setname_np(pthread_self(), "waiting");
    ++ready;
    heard = WaitsForTheTest(future);
  });
  std::thread running([&] {
    pthread_setname_np(pthread_self(), "running");
    ++ready;
    (void)RunsUntilTheTestEnds(ends);
  });
  while (ready < 2) std::this_thread::yield();
  // They may not be in their functions yet.
  std::string text;
  do {
    text = DescribeThreadStacks(absl::Minutes(1));
  } while (ParagraphOf(text, "waiting").find("WaitsForTheTest") == std::string::npos ||
           ParagraphOf(text, "running").find("RunsUntilTheTestEnds") == std::string::npos);
  CHECK(text.find("DescribeThreadStacks") != std::string::npos);  // this thread's own
  ends = true;
  promise.set_value(7);
  waiting.join();
  running.join();
  CHECK(heard == 7);
  CHECK(ParagraphOf(DescribeThreadStacks(absl::Minutes(1)), "waiting").empty());
}

// Whether a signal of those that threads are asked by waits for this thread, which blocks it.
bool IsAsked() {
  sigset_t pending;
  sigpending(&pending);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    if (sigismember(&pending, signal) == 1) return true;
  }
  return false;
}

TEST_CASE("a thread that ends instead of answering is not waited for") {
  std::atomic<bool> is_deaf = false;
  std::thread deaf([&] {
    pthread_setname_np(pthread_self(), "deaf");
    sigset_t signals;
    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    is_deaf = true;
    while (!IsAsked()) std::this_thread::yield();
  });
  while (!is_deaf) std::this_thread::yield();
  CHECK(ParagraphOf(DescribeThreadStacks(absl::Hours(1)), "deaf").empty());
  deaf.join();
}

TEST_CASE("several may ask at once") {
  std::vector<std::thread> asking;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 4; ++i) {
    asking.emplace_back([&] {
      if (DescribeThreadStacks(absl::Minutes(1)).find("thread ") == 0) ++answered;
    });
  }
  for (std::thread& one : asking) one.join();
  CHECK(answered == 4);
}

}  // namespace
}  // namespace medley
