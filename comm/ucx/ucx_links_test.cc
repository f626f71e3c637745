#include "comm/ucx/ucx_links.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

namespace medley {
namespace {

TEST_CASE("transports are asked for where they were found") {
  CHECK(TransportsFor(UcxLinks::kAutomatic, {}) == "tcp,sm,self");
  CHECK(TransportsFor(UcxLinks::kAutomatic, {.rdma_devices = {"mlx5_0"}}) == "ib,tcp,sm,self");
  CHECK(TransportsFor(UcxLinks::kAutomatic, {.rdma_devices = {"mlx5_0"}, .cuda = true}) ==
        "ib,tcp,sm,self,cuda");
  CHECK(TransportsFor(UcxLinks::kTcp, {.rdma_devices = {"mlx5_0"}, .rocm = true}) == "tcp,self,rocm");
  CHECK(TransportsFor(UcxLinks::kSharedMemory, {.rdma_devices = {"mlx5_0"}}) == "sm,self");
}

TEST_CASE("UCX says what it has found, and of RDMA devices only those that the kernel has") {
  const auto found = QueryUcx();
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  for (const std::string& device : found->rdma_devices) {
    CAPTURE(device);
    CHECK(std::filesystem::exists("/sys/class/infiniband/" + device));
  }
}

TEST_CASE("a device is a network interface, or an RDMA device with its port") {
  std::string root = std::filesystem::temp_directory_path() / "rdma_devices_XXXXXX";
  REQUIRE(mkdtemp(root.data()) != nullptr);
  std::filesystem::create_directories(root + "/mlx5_0/ports/1");
  for (const char* names : {"", "lo", "mlx5_0:1", "lo,mlx5_0:1", "mlx5_0:1,lo"}) {
    CAPTURE(names);
    CHECK(CheckDevices(names, root).ok());
  }
  for (const char* wrong :
       {"nowhere7", "mlx5_0", "mlx5_0:2", "mlx5_1:1", ":1", "mlx5_0:", "mlx5_0:..", "../x:1"}) {
    CAPTURE(wrong);
    const absl::Status status = CheckDevices(std::string("lo,") + wrong, root);
    CHECK(absl::IsInvalidArgument(status));
    CHECK_THAT(std::string(status.message()),
               Catch::Contains("\"" + std::string(wrong) + "\" is no network"));
  }
  CHECK(absl::IsInvalidArgument(CheckDevices("lo,,lo", root)));
  std::filesystem::remove_all(root);
}

TEST_CASE("the path of an endpoint is the kind of its lane for messages") {
  const std::string head = "#\n# UCP endpoint \n#\n#               peer: <no debug data>\n";
  CHECK(
      PathOf(
          head +
          "#                 lane[0]:  1:tcp/lo.0 md[1]       -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0\n"
          "#                 lane[1]:  2:tcp/eth0.0 md[1]     -> md[1]/tcp/sysdev[255] rma_bw#1 wireup\n") ==
      "tcp");
  CHECK(PathOf(head +
               "#                 lane[0]:  5:cma/memory.0 md[4]   -> md[4]/cma/sysdev[255] rma_bw#0\n"
               "#                 lane[1]:  3:sysv/memory.0 md[2]  -> md[2]/sysv/sysdev[255] am am_bw#0\n") ==
        "shared memory");
  CHECK(PathOf(head + "# lane[0]:  7:rc_mlx5/mlx5_0:1.0 md[3]  -> md[3]/ib/sysdev[0] am am_bw#0\n") ==
        "rdma");
  CHECK(PathOf("") == "unknown");
  CHECK(PathOf("# lane[0]:  7:ugni_smsg/x.0 md[3] am\n") == "unknown");
}

}  // namespace
}  // namespace medley
