#include "runtime/base/available_memory.h"

#include <catch2/catch.hpp>
#include <string>

#include "runtime/base/files/temporary_directory.h"

namespace medley {
namespace {

// A host of 512 GiB, of which 400 GiB are available, with what the kernel says of control groups.
class Host {
 public:
  Host() {
    Write("proc/meminfo", "MemTotal:       536870912 kB\nMemFree: 7 kB\nMemAvailable:   419430400 kB\n");
  }
  std::filesystem::path root() const { return directory_.path(); }
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((root() / name).parent_path());
    directory_.Write(name, text);
  }
  void Write(const std::string& name, Bytes number) const {
    Write(name, std::to_string(number.value) + "\n");
  }

 private:
  TemporaryDirectory directory_;
};

TEST_CASE("without control groups the host's memory is there") {
  const Host host;
  CHECK(AvailableHostMemory(host.root()) == GiB(400));
  CHECK(TotalHostMemory(host.root()) == GiB(512));
  host.Write("proc/self/cgroup", "0::/pod/container\n");
  CHECK(AvailableHostMemory(host.root()) == GiB(400));
  host.Write("sys/fs/cgroup/pod/container/memory.max", "max\n");
  CHECK(AvailableHostMemory(host.root()) == GiB(400));
  CHECK(TotalHostMemory(host.root()) == GiB(512));
}

TEST_CASE("what is not known is 0, and this host's is known") {
  CHECK(AvailableHostMemory("/no/such/folder") == Bytes{});
  CHECK(TotalHostMemory("/no/such/folder") == Bytes{});
  CHECK(AvailableHostMemory() > Bytes{});
  CHECK(TotalHostMemory() >= AvailableHostMemory());
}

TEST_CASE(
    "the limit of a control group, or of one that it is in, leaves what is not used or can be given back") {
  const Host host;
  host.Write("proc/self/cgroup", "0::/pod/container\n");
  host.Write("sys/fs/cgroup/pod/container/memory.max", "max\n");
  host.Write("sys/fs/cgroup/pod/memory.max", GiB(64));
  host.Write("sys/fs/cgroup/pod/memory.current", GiB(20));
  CHECK(AvailableHostMemory(host.root()) == GiB(44));
  host.Write("sys/fs/cgroup/pod/memory.stat", "anon 5\nactive_file " + std::to_string(GiB(3).value) +
                                                  "\ninactive_file " + std::to_string(GiB(5).value) + "\n");
  CHECK(AvailableHostMemory(host.root()) == GiB(52));
  CHECK(TotalHostMemory(host.root()) == GiB(64));
  // The group itself has less.
  host.Write("sys/fs/cgroup/pod/container/memory.max", GiB(10));
  CHECK(AvailableHostMemory(host.root()) == GiB(10));
  CHECK(TotalHostMemory(host.root()) == GiB(10));
  // That nothing is left is not that nothing is known.
  host.Write("sys/fs/cgroup/pod/container/memory.current", GiB(11));
  CHECK(AvailableHostMemory(host.root()) == Bytes{1});
}

TEST_CASE("a container that sees its own control group only is in that one") {
  const Host host;
  host.Write("proc/self/cgroup", "0::/../kubepods/pod/container\n");
  host.Write("sys/fs/cgroup/memory.max", GiB(64));
  host.Write("sys/fs/cgroup/memory.current", GiB(1));
  CHECK(AvailableHostMemory(host.root()) == GiB(63));
}

TEST_CASE("control groups of version 1 limit memory as well") {
  const Host host;
  host.Write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/pod/container\n0::/\n");
  // That of another controller, and what the kernel says for no limit.
  host.Write("sys/fs/cgroup/memory/other/memory.limit_in_bytes", GiB(1));
  host.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(AvailableHostMemory(host.root()) == GiB(400));
  host.Write("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", GiB(64));
  host.Write("sys/fs/cgroup/memory/pod/memory.usage_in_bytes", GiB(20));
  host.Write("sys/fs/cgroup/memory/pod/memory.stat",
             "inactive_file 1\ntotal_inactive_file " + std::to_string(GiB(4).value) + "\n");
  CHECK(AvailableHostMemory(host.root()) == GiB(48));
  CHECK(TotalHostMemory(host.root()) == GiB(64));
}

}  // namespace
}  // namespace medley
