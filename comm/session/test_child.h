#pragma once
#include <sys/types.h>

#include <memory>
#include <string>

namespace medley {

// Another process of a test: the test's own program, which runs one of its hidden test cases ("[.]") and
// talks with this one in messages of at most 64 KiB. A fresh process rather than a fork, which threads of
// before could harm.
class TestChild {
 public:
  // Runs the test case of this name. Null: it cannot be started.
  static std::unique_ptr<TestChild> Start(const std::string& test_case);
  // Kills it, if it has not ended, and waits for its end.
  ~TestChild();

  void Signal(int signal) const;
  // Waits for its end. Returns its exit status, or 128 + the signal.
  int AwaitEnd();
  int descriptor() const { return descriptor_; }

  // To and from the other process; the child's descriptor is kOfChild. Receive waits for at most 20 s; then,
  // and if the other has ended, it returns "".
  static constexpr int kOfChild = 0;
  static void Send(int descriptor, const std::string& message);
  static std::string Receive(int descriptor);

 private:
  TestChild(pid_t process, int descriptor) : process_(process), descriptor_(descriptor) {}

  pid_t process_;
  const int descriptor_;
};

}  // namespace medley
