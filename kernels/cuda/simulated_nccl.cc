#include "kernels/cuda/simulated_nccl.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/simulated_driver.h"
#include "runtime/base/narrow.h"

// What a communicator of NCCL's own is, here.
struct ncclComm {
  enum class Kind { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kReduce };
  // What all members have to ask for alike.
  struct Call {
    Kind kind = Kind::kAllReduce;
    size_t count = 0;
    ncclDataType_t type = ncclFloat32;
    int root = 0;
    friend bool operator==(const Call&, const Call&) = default;
  };
  // What the members gave to a call that some of them have not taken yet.
  struct Given {
    Call call;
    std::vector<std::byte> bytes;
  };
  struct Exchange {
    std::vector<std::optional<Given>> given;  // by member
    int taken = 0;
  };
  struct Clique {
    int members = 0, joined = 0;
    std::map<int, Exchange> exchanges;  // by their number
  };
  std::shared_ptr<Clique> clique;
  int member = 0, calls = 0;
  bool fails = false, aborted = false;
  bool is_taking = false;  // says so once after each call
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
  int live = 0, aborted = 0;
  SubmittedCalls submitted;
  int failing_joins = -1, failing_sums = -1, hanging_sums = -1;  // members; -1: none
};
Nccl nccl;

using Kind = ncclComm::Kind;

// Of this thread: the communicators that were called since its ncclGroupStart().
struct Group {
  bool is_open = false;
  std::vector<ncclComm_t> called;
};
thread_local Group group;

size_t SizeOfType(ncclDataType_t type) { return type == ncclFloat32 ? 4 : 2; }

float Load(const std::byte* values, size_t i, ncclDataType_t type) {
  if (type == ncclFloat32) return reinterpret_cast<const float*>(values)[i];
  return FromNarrow(reinterpret_cast<const uint16_t*>(values)[i],
                    type == ncclFloat16 ? Dtype::kF16 : Dtype::kBf16);
}

void Store(float value, std::byte* values, size_t i, ncclDataType_t type) {
  if (type == ncclFloat32) {
    reinterpret_cast<float*>(values)[i] = value;
  } else {
    reinterpret_cast<uint16_t*>(values)[i] =
        ToNarrow(value, type == ncclFloat16 ? Dtype::kF16 : Dtype::kBf16);
  }
}

bool AllGave(const ncclComm& communicator, int number) {
  const auto at = communicator.clique->exchanges.find(number);
  return at != communicator.clique->exchanges.end() &&
         std::all_of(at->second.given.begin(), at->second.given.end(),
                     [](const auto& given) { return given.has_value(); });
}

// `count` elements from the `first` of what the members gave, in their order, so that all get the same bits; rounded
// after each addition.
void Add(const ncclComm::Exchange& exchange, size_t first, size_t count, ncclDataType_t type, std::byte* to) {
  for (size_t i = 0; i < count; ++i) {
    Store(Load(exchange.given[0]->bytes.data(), first + i, type), to, i, type);
    for (size_t member = 1; member < exchange.given.size(); ++member)
      Store(Load(to, i, type) + Load(exchange.given[member]->bytes.data(), first + i, type), to, i, type);
  }
}

void Take(ncclComm& communicator, int number, std::byte* to) {
  ncclComm::Clique& clique = *communicator.clique;
  ncclComm::Exchange& exchange = clique.exchanges.at(number);
  const auto own = static_cast<size_t>(communicator.member);
  const ncclComm::Call& call = exchange.given[own]->call;
  // Members that ask for unlike things would wait for ever, or worse.
  for (const auto& given : exchange.given) communicator.fails |= given->call != call;
  if (!communicator.fails) {
    switch (call.kind) {
      case Kind::kAllReduce:
        Add(exchange, 0, call.count, call.type, to);
        break;
      case Kind::kReduceScatter:
        Add(exchange, own * call.count, call.count, call.type, to);
        break;
      case Kind::kReduce:
        if (communicator.member == call.root) Add(exchange, 0, call.count, call.type, to);
        break;
      case Kind::kAllGather:
        for (const auto& given : exchange.given) to = std::copy(given->bytes.begin(), given->bytes.end(), to);
        break;
      case Kind::kBroadcast: {
        const std::vector<std::byte>& sent = exchange.given[static_cast<size_t>(call.root)]->bytes;
        std::copy(sent.begin(), sent.end(), to);
        break;
      }
    }
  }
  if (++exchange.taken == clique.members) clique.exchanges.erase(number);
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

// `given_count`: elements that each member gives.
ncclResult_t Submit(const ncclComm::Call& call, size_t given_count, const void* from, void* to,
                    ncclComm_t communicator, CUstream stream) {
  if (call.type != ncclFloat32 && call.type != ncclFloat16 && call.type != ncclBfloat16)
    return ncclInvalidArgument;
  int number = 0;
  bool hangs = false;
  {
    const Lock lock(mutex);
    if (communicator->is_taking) return ncclInvalidUsage;
    if (group.is_open) {
      group.called.push_back(communicator);
    } else {
      communicator->is_taking = true;
    }
    number = communicator->calls++;
    communicator->fails |= communicator->member == nccl.failing_sums;
    hangs = communicator->fails || communicator->member == nccl.hanging_sums;
  }
  const auto give = [=] {
    const Lock lock(mutex);
    if (communicator->aborted || hangs || call.count == 0) return;
    auto& given = communicator->clique->exchanges[number].given;
    given.resize(static_cast<size_t>(communicator->clique->members));
    const auto* const bytes = static_cast<const std::byte*>(from);
    given[static_cast<size_t>(communicator->member)] = {
        call, std::vector<std::byte>(bytes, bytes + given_count * SizeOfType(call.type))};
  };
  const auto can = [=] {
    const Lock lock(mutex);
    return communicator->aborted || call.count == 0 || (!hangs && AllGave(*communicator, number));
  };
  const auto take = [=] {
    const Lock lock(mutex);
    if (!communicator->aborted && call.count > 0) Take(*communicator, number, static_cast<std::byte*>(to));
  };
  Launch(stream, give);
  LaunchWhen(stream, can, take);
  return ncclInProgress;
}

// Counts a call of one kind.
void Count(int SubmittedCalls::*kind) {
  const Lock lock(mutex);
  ++(nccl.submitted.*kind);
}

void FillExchanges(NcclLibrary& library) {
  library.ncclAllReduce = [](const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                             ncclComm_t comm, CUstream stream) -> ncclResult_t {
    Count(&SubmittedCalls::all_reduces);
    return Submit({Kind::kAllReduce, count, type}, count, from, to, comm, stream);
  };
  library.ncclAllGather = [](const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                             CUstream stream) -> ncclResult_t {
    Count(&SubmittedCalls::all_gathers);
    return Submit({Kind::kAllGather, count, type}, count, from, to, comm, stream);
  };
  library.ncclReduceScatter = [](const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                                 ncclComm_t comm, CUstream stream) -> ncclResult_t {
    Count(&SubmittedCalls::reduce_scatters);
    const auto members = static_cast<size_t>(comm->clique->members);
    return Submit({Kind::kReduceScatter, count, type}, members * count, from, to, comm, stream);
  };
  library.ncclBroadcast = [](const void* from, void* to, size_t count, ncclDataType_t type, int root,
                             ncclComm_t comm, CUstream stream) -> ncclResult_t {
    Count(&SubmittedCalls::broadcasts);
    const size_t given = root == comm->member ? count : 0;
    return Submit({Kind::kBroadcast, count, type, root}, given, from, to, comm, stream);
  };
  library.ncclReduce = [](const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                          int root, ncclComm_t comm, CUstream stream) -> ncclResult_t {
    Count(&SubmittedCalls::reduces);
    return Submit({Kind::kReduce, count, type, root}, count, from, to, comm, stream);
  };
  library.ncclGroupStart = []() -> ncclResult_t {
    if (group.is_open) return ncclInvalidUsage;
    group.is_open = true;
    return ncclSuccess;
  };
  library.ncclGroupEnd = []() -> ncclResult_t {
    if (!group.is_open) return ncclInvalidUsage;
    const Lock lock(mutex);
    for (const ncclComm_t communicator : group.called) communicator->is_taking = true;
    group = {};
    return ncclInProgress;
  };
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
    const bool is_taking = std::exchange(communicator->is_taking, false);
    *result = communicator->fails ? ncclRemoteError : is_joining || is_taking ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
  };
  library.ncclCommAbort = Abort;
  FillExchanges(library);
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

SubmittedCalls Submitted() {
  const Lock lock(mutex);
  return nccl.submitted;
}

}  // namespace medley::simulated
