#include "comm/ucx/ucx_state.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/transport/attempt_token.h"
#include "comm/ucx/stray_messages.h"
#include "comm/ucx/ucx_status.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

class UcxRegistration final : public Registration {
 public:
  UcxRegistration(UcxState& state, std::shared_ptr<UcxRegion> region)
      : state_(state), region_(std::move(region)) {}
  ~UcxRegistration() override { state_.Unregister(std::move(region_)); }

 private:
  UcxState& state_;
  std::shared_ptr<UcxRegion> region_;
};

}  // namespace

UcxState::UcxState(const Options& options, std::unique_ptr<UcxWorker> worker)
    : options_(options), traffic_(options.size), worker_(std::move(worker)) {
  for (int rank = 0; rank < options.size; ++rank) {
    tokens_.push_back(AttemptToken(options.secret, options.attempt, rank));
  }
  endpoints_ =
      std::make_unique<UcxEndpoints>(worker_->get(), options.size, changed_,
                                     [this](int rank) ABSL_NO_THREAD_SAFETY_ANALYSIS { SettleAllOf(rank); });
  engine_ = std::make_unique<ProgressEngine>(
      *worker_, [this] { dropped_messages_ += DropStrayMessages(worker_->get(), tokens_[options_.rank]); });
}

UcxState::~UcxState() {
  engine_.reset();
  endpoints_->CutAll();  // gives back what is under way on them, by callbacks
  std::erase_if(orphans_, [](const auto& operation) { return operation->request == nullptr; });
  regions_.Clear();
  if (orphans_.empty() && !endpoints_->Stuck()) return;
  // UCX 1.13 has no way to take a large send over shared memory back, and stops the process where a worker is
  // destroyed that has one. So this worker stays, and what its callbacks know; it happens once in an attempt
  // at most.
  struct Remains {
    std::unique_ptr<UcxWorker> worker;
    std::unique_ptr<UcxEndpoints> endpoints;
    std::vector<std::unique_ptr<UcxOperation>> operations;
  };
  static auto* const all_remains = new std::vector<Remains>;
  static auto* const remains_mutex = new Mutex;
  MutexLock lock(*remains_mutex);
  all_remains->push_back({std::move(worker_), std::move(endpoints_), std::move(orphans_)});
}

absl::Status UcxState::AwaitFlushes(const char* doing, absl::Time deadline) {
  const auto flushed = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return aborted_ || engine_->halted() || endpoints_->AllFlushed();
  };
  engine_->Await(changed_, deadline, flushed);
  if (aborted_) return absl::CancelledError(absl::StrCat(doing, ": the transport was aborted"));
  const std::vector<int> silent = endpoints_->Flushing();
  if (silent.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(doing, ": no answer from rank ", absl::StrJoin(silent, ", "), " at the deadline"));
}

absl::Status UcxState::Open(const UcxAddress& address, const std::string& own_host) {
  const bool same_host = address.host == own_host;
  if (options_.links == UcxLinks::kSharedMemory && !same_host) {
    return absl::FailedPreconditionError(
        absl::StrCat("links are shared memory, and rank ", address.rank,
                     address.host.empty() ? " has links of TCP alone" : " is on another host"));
  }
  const bool local = same_host && options_.links != UcxLinks::kTcp;
  if (!local && address.network.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("rank ", address.rank, " has no network address"));
  }
  EngineLock lock(*engine_);
  RETURN_IF_ERROR(over_);
  RETURN_IF_ERROR(endpoints_->Open(address, local));
  engine_->Nudge([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return endpoints_->AllFlushed(); });
  return absl::OkStatus();
}

absl::Status UcxState::AwaitConnections(absl::Time deadline) {
  EngineLock lock(*engine_);
  const absl::Status answered = AwaitFlushes("connecting", deadline);
  RETURN_IF_ERROR(Annotate(endpoints_->FlushError(), "connecting"));
  RETURN_IF_ERROR(answered);
  RETURN_IF_ERROR(over_);
  endpoints_->FindPaths();
  connected_ = true;
  return absl::OkStatus();
}

void UcxState::SettleAllOf(int rank) {
  for (UcxOperation* operation : held_) {
    if (operation->peer == rank) operation->Settle(endpoints_->gone(rank));
  }
}

void UcxState::FailAll(const absl::Status& why) {
  if (over_.ok()) over_ = why;
  for (UcxOperation* operation : held_) operation->Settle(over_);
  changed_.NotifyAll();
}

void UcxState::Stop(const absl::Status& why) {
  FailAll(why);
  // Cut first: a network device may be at work on the bytes by itself, and stops only so.
  endpoints_->CutAll();
  engine_->TakeIn(kTakeIn);
  engine_->Halt();
  // Those that wait for UCX to give bytes back need not any more.
  for (UcxOperation* operation : held_) operation->changed.NotifyAll();
}

void UcxState::Abort(const std::string& reason) {
  EngineLock lock(*engine_);
  aborted_ = true;
  FailAll(absl::CancelledError(reason));
}

void UcxState::MarkGone(int rank, const std::string& why) {
  EngineLock lock(*engine_);
  if (!endpoints_->gone(rank).ok()) return;
  engine_->TakeIn(kTakeIn);
  endpoints_->Lose(rank, why);
}

absl::Status UcxState::Close(absl::Time deadline) {
  EngineLock lock(*engine_);
  RETURN_IF_ERROR(over_);
  over_ = absl::CancelledError("the transport is closed");
  for (UcxOperation* operation : held_) {
    if (!operation->sends()) operation->Settle(over_);
  }
  const auto sent = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return SendingTo().empty() || aborted_; };
  engine_->Await(changed_, deadline, sent);
  const std::vector<int> unsent = SendingTo();
  endpoints_->FlushAll();
  engine_->Nudge([] { return false; });
  const absl::Status answered = AwaitFlushes("closing", deadline);
  FailAll(over_);  // the thread goes on, lest peers that still flush wait for this rank
  if (answered.ok() && !unsent.empty()) {
    return absl::DeadlineExceededError(
        absl::StrCat("closing: not all was sent to rank ", absl::StrJoin(unsent, ", "), " at the deadline"));
  }
  return answered;
}

std::vector<int> UcxState::SendingTo() {
  std::set<int> peers;
  for (const UcxOperation* operation : held_) {
    if (operation->sends() && endpoints_->gone(operation->peer).ok()) peers.insert(operation->peer);
  }
  return {peers.begin(), peers.end()};
}

bool UcxState::Reaches(MemoryType memory) const {
  return (worker_->memory_types() & UCS_BIT(UcsMemoryType(memory))) != 0;
}

bool UcxState::SharesMemory(int rank) const {
  EngineLock lock(*engine_);
  return endpoints_->IsLocal(rank);
}

absl::StatusOr<std::unique_ptr<Registration>> UcxState::Register(absl::Span<std::byte> bytes,
                                                                 MemoryType memory) {
  if (bytes.empty()) return std::unique_ptr<Registration>();
  EngineLock lock(*engine_);
  ASSIGN_OR_RETURN(std::shared_ptr<UcxRegion> region, UcxRegion::Map(worker_->context(), bytes, memory));
  regions_.Add(region);
  return std::unique_ptr<Registration>(std::make_unique<UcxRegistration>(*this, std::move(region)));
}

void UcxState::Unregister(std::shared_ptr<UcxRegion> region) {
  EngineLock lock(*engine_);
  regions_.Remove(*region);
  region.reset();  // transfers under way keep theirs
}

std::vector<PeerTraffic> UcxState::Traffic() const {
  EngineLock lock(*engine_);
  return traffic_.Snapshot([this](int peer) { return endpoints_->path(peer); });
}

uint64_t UcxState::DroppedMessages() const {
  EngineLock lock(*engine_);
  return dropped_messages_;
}

}  // namespace medley
