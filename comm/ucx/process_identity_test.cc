#include "comm/ucx/process_identity.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace medley {
namespace {

TEST_CASE("a process has ended once it is a zombie, and when its number is another's") {
  int to_parent[2];
  REQUIRE(pipe(to_parent) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const ProcessIdentity own = OwnProcess();
    const bool wrote = write(to_parent[1], &own, sizeof(own)) == sizeof(own);
    while (wrote) pause();
    _exit(1);
  }
  ProcessIdentity identity;
  REQUIRE(read(to_parent[0], &identity, sizeof(identity)) == sizeof(identity));
  close(to_parent[0]);
  close(to_parent[1]);
  CHECK(identity.id == child);
  CHECK_FALSE(HasEnded(identity));
  CHECK(HasEnded({identity.id, identity.started_ticks + 1}));
  kill(child, SIGKILL);
  siginfo_t about;
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOWAIT) == 0);
  CHECK(HasEnded(identity));  // a zombie
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(HasEnded(identity));
}

TEST_CASE("nothing is said of processes that are not known") {
  CHECK_FALSE(HasEnded(OwnProcess()));
  CHECK_FALSE(HasEnded({}));
  CHECK_FALSE(HasEnded({-5, 7}));
  CHECK_FALSE(HasEnded({OwnProcess().id, 0}));
}

}  // namespace
}  // namespace medley
