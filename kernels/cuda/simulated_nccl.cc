#include "kernels/cuda/simulated_nccl.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/simulated_driver.h"

// What a communicator of NCCL's own is, here.
struct ncclComm {
  // What the members gave to each sum that some of them have not taken yet.
  struct Clique {
    int members = 0, joined = 0;
    std::map<int, std::vector<std::vector<float>>> sums;
    std::map<int, int> taken;
  };
  std::shared_ptr<Clique> clique;
  int member = 0, sums = 0;
  bool fails = false, aborted = false;
};

namespace medley::simulated {
namespace {

using Lock = std::lock_guard<std::mutex>;

// Of everything below; taken by streams at work, so that nobody who has it may call the driver.
std::mutex mutex;

struct Nccl {
  std::map<std::string, std::shared_ptr<ncclComm::Clique>> cliques;
  // They stay to the end: streams may have work of those that are destroyed.
  std::vector<std::unique_ptr<ncclComm>> communicators;
  char ids = 0;
  int live = 0, aborted = 0, sums = 0;
  int failing_joins = -1, failing_sums = -1, hanging_sums = -1;  // members; -1: none
};
Nccl nccl;

bool AllGave(const ncclComm& communicator, int sum) {
  const auto at = communicator.clique->sums.find(sum);
  return at != communicator.clique->sums.end() &&
         std::none_of(at->second.begin(), at->second.end(), [](const auto& given) { return given.empty(); });
}

// In the order of the members, so that all get the same bits.
void Take(ncclComm& communicator, int sum, float* to, size_t count) {
  ncclComm::Clique& clique = *communicator.clique;
  const std::vector<std::vector<float>>& given = clique.sums.at(sum);
  for (size_t i = 0; i < count; ++i) {
    to[i] = given[0][i];
    for (size_t member = 1; member < given.size(); ++member) to[i] += given[member][i];
  }
  if (++clique.taken[sum] == clique.members) clique.sums.erase(sum);
}

ncclResult_t Join(ncclComm_t* communicator, int members, ncclUniqueId id, int member, ncclConfig_t* config) {
  if (config->magic != 0xcafebeef || config->size < sizeof(ncclConfig_t) || config->blocking != 0)
    return ncclInvalidArgument;
  const Lock lock(mutex);
  if (member == nccl.failing_joins) return ncclSystemError;
  std::shared_ptr<ncclComm::Clique>& clique =
      nccl.cliques.try_emplace(std::string(id.internal, sizeof(id.internal))).first->second;
  if (clique == nullptr) clique = std::make_shared<ncclComm::Clique>(ncclComm::Clique{.members = members});
  ++clique->joined;
  nccl.communicators.push_back(std::make_unique<ncclComm>(ncclComm{.clique = clique, .member = member}));
  *communicator = nccl.communicators.back().get();
  ++nccl.live;
  return clique->joined == members ? ncclSuccess : ncclInProgress;
}

ncclResult_t Sum(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                 ncclComm_t communicator, CUstream stream) {
  if (type != ncclFloat32 || op != ncclSum) return ncclInvalidArgument;
  int sum = 0;
  bool hangs = false;
  {
    const Lock lock(mutex);
    sum = communicator->sums++;
    ++nccl.sums;
    communicator->fails = communicator->member == nccl.failing_sums;
    hangs = communicator->fails || communicator->member == nccl.hanging_sums;
  }
  const auto give = [=] {
    const Lock lock(mutex);
    if (communicator->aborted || hangs || count == 0) return;
    auto& given = communicator->clique->sums[sum];
    given.resize(static_cast<size_t>(communicator->clique->members));
    const auto* values = static_cast<const float*>(from);
    given[static_cast<size_t>(communicator->member)].assign(values, values + count);
  };
  const auto can = [=] {
    const Lock lock(mutex);
    return communicator->aborted || count == 0 || (!hangs && AllGave(*communicator, sum));
  };
  const auto take = [=] {
    const Lock lock(mutex);
    if (!communicator->aborted && count > 0) Take(*communicator, sum, static_cast<float*>(to), count);
  };
  Launch(stream, give);
  LaunchWhen(stream, can, take);
  return ncclInProgress;
}

ncclResult_t Abort(ncclComm_t communicator) {
  const Lock lock(mutex);
  communicator->aborted = true;
  --nccl.live;
  ++nccl.aborted;
  return ncclSuccess;
}

}  // namespace

const NcclLibrary& StartNccl() {
  static NcclLibrary library;
  library.ncclGetVersion = [](int* version) -> ncclResult_t {
    *version = 21403;
    return ncclSuccess;
  };
  library.ncclGetErrorString = [](ncclResult_t result) -> const char* {
    return result == ncclSystemError ? "unhandled system error" : "remote process exited";
  };
  library.ncclGetLastError = [](ncclComm_t) -> const char* { return "it was asked to fail\n"; };
  library.ncclGetUniqueId = [](ncclUniqueId* id) -> ncclResult_t {
    const Lock lock(mutex);
    std::memset(id->internal, 0, sizeof(id->internal));
    id->internal[0] = ++nccl.ids;
    return ncclSuccess;
  };
  library.ncclCommInitRankConfig = Join;
  library.ncclCommGetAsyncError = [](ncclComm_t communicator, ncclResult_t* result) -> ncclResult_t {
    const Lock lock(mutex);
    const bool is_joining = communicator->clique->joined < communicator->clique->members;
    *result = communicator->fails ? ncclRemoteError : is_joining ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
  };
  library.ncclCommAbort = Abort;
  library.ncclAllReduce = Sum;
  const Lock lock(mutex);
  nccl = Nccl{};
  return library;
}

void FailJoining(int member) {
  const Lock lock(mutex);
  nccl.failing_joins = member;
}

void FailSums(int member) {
  const Lock lock(mutex);
  nccl.failing_sums = member;
}

void HangSums(int member) {
  const Lock lock(mutex);
  nccl.hanging_sums = member;
}

int LiveCommunicators() {
  const Lock lock(mutex);
  return nccl.live;
}

int AbortedCommunicators() {
  const Lock lock(mutex);
  return nccl.aborted;
}

int SubmittedSums() {
  const Lock lock(mutex);
  return nccl.sums;
}

}  // namespace medley::simulated
