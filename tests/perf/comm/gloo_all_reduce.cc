// Times Gloo's ring all-reduce of floats in place over TCP on loopback, with a process a rank:
//   gloo_all_reduce BYTES ITERATIONS RANKS CORE,CORE,... FOLDER
// Rank i runs on the i-th core, over and over; FOLDER is empty, and where the ranks find each other. Prints
// the slowest rank's median.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <sstream>
#include <string>

#include "comm/collective/time_all_reduce.h"
#include "runtime/base/allowed_cores.h"

namespace {

using Reduction = void (*)(void*, const void*, const void*, size_t);

void AllReduce(const std::shared_ptr<gloo::Context>& context, std::vector<float>& values,
               Reduction reduction) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setOutput(values.data(), values.size());
  options.setReduceFunction(reduction);
  gloo::allreduce(options);
}

void Run(size_t bytes, int iterations, int rank, int ranks, const std::string& folder) {
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder);
  auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
  context->connectFullMesh(store, device);
  const double median = MedianSeconds(bytes, iterations, ranks, [&](std::vector<float>& values) {
    AllReduce(context, values, static_cast<Reduction>(&gloo::sum<float>));
  });
  std::vector<float> slowest = {static_cast<float>(median)};
  AllReduce(context, slowest, static_cast<Reduction>(&gloo::max<float>));
  if (rank == 0) std::printf("allreduce_microseconds %.2f\n", slowest[0] * 1e6);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) return 2;
  const int ranks = std::atoi(arguments[3]);
  std::vector<int> cores;
  std::istringstream list(arguments[4]);
  for (std::string one; std::getline(list, one, ',');) cores.push_back(std::stoi(one));
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    medley::SetAllowedCores(0, {cores[rank % cores.size()]});
    Run(std::strtoull(arguments[1], nullptr, 10), std::atoi(arguments[2]), rank, ranks, arguments[5]);
    std::fflush(stdout);
    _exit(0);
  }
  int worst = 0, status = 0;
  while (wait(&status) > 0) worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  return worst;
}
