#include "comm/communicator/communicator.h"

#include <utility>

#include "comm/communicator/session_devices.h"
#include "comm/session/interfaces.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(const Options& options) {
  std::unique_ptr<Communicator> made(new Communicator(options));
  ASSIGN_OR_RETURN(made->transport_, UcxTransport::Create({.attempt = options.attempt,
                                                           .rank = options.rank,
                                                           .size = options.size,
                                                           .links = options.links,
                                                           .peers = options.peers,
                                                           .network_devices = options.network_devices,
                                                           .secret = options.secret}));
  if (options.message_protection != MessageProtection::kNone) {
    ASSIGN_OR_RETURN(made->protected_,
                     ProtectedTransport::Create(*made->transport_, {.protection = options.message_protection,
                                                                    .secret = options.secret,
                                                                    .attempt = options.attempt}));
  }
  made->departures_ = std::make_unique<Departures>(
      [raw = made.get()](const Departures::Departure& departure) { raw->Tell(departure); });
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> addressed, ReadInterfaces());
  ASSIGN_OR_RETURN(const std::string devices,
                   SessionDevices(options.network_devices, options.session_devices, addressed));
  ASSIGN_OR_RETURN(made->session_, Session::Listen({.attempt = options.attempt,
                                                    .rank = options.rank,
                                                    .size = options.size,
                                                    .secret = options.secret,
                                                    .peers = options.peers,
                                                    .payload = made->transport_->address(),
                                                    .network_devices = devices,
                                                    .heartbeat = options.heartbeat,
                                                    .silence_limit = options.silence_limit}));
  // The session's thread must not wait for the transport's, so it leaves the telling to another.
  made->session_->OnGone([raw = made.get()](int rank, bool left, const std::string& why) {
    // Before the peer hears that it was heard, and breaks its connections.
    if (!left) raw->transport_->Expect(rank, why);
    raw->departures_->Add({rank, left, why}, left ? raw->options_.goodbye_grace : absl::ZeroDuration());
  });
  return made;
}

Communicator::~Communicator() = default;

absl::Status Communicator::Connect(const std::vector<std::string>& addresses_by_rank, absl::Time deadline) {
  RETURN_IF_ERROR(session_->Connect(addresses_by_rank, deadline));
  std::vector<std::string> addresses;
  for (int rank = 0; rank < options_.size; ++rank) addresses.push_back(session_->payload(rank));
  return transport_->Connect(addresses, deadline);
}

void Communicator::OnGone(Session::GoneCallback callback) {
  MutexLock lock(mutex_);
  on_gone_ = std::move(callback);
}

void Communicator::Tell(const Departures::Departure& departure) {
  transport_->MarkGone(departure.rank, departure.why);
  Session::GoneCallback callback;
  {
    MutexLock lock(mutex_);
    callback = on_gone_;
  }
  if (callback) callback(departure.rank, departure.left, departure.why);
}

absl::Status Communicator::Close(absl::Time deadline) {
  const absl::Status closed = transport_->Close(deadline);
  session_->Close(deadline);
  return closed;
}

}  // namespace medley
