#include "runtime/web/connection_gate.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/clock.h"

namespace medley {
namespace {

using Outcome = WebConnection::Outcome;

constexpr size_t kReadBytes = 4096;
// For who is refused to read why before the connection is gone: what they still send is passed over meanwhile.
constexpr absl::Duration kEndingLimit = absl::Seconds(2);
constexpr int kMostPassedOver = 16;

const char* ReasonOf(int status) {
  switch (status) {
    case 408:
      return "Request Timeout";
    case 414:
      return "URI Too Long";
    default:
      return "Request Header Fields Too Large";
  }
}

}  // namespace

ConnectionGate::ConnectionGate(Options options)
    : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (int i = 0; i < options_.workers; ++i) workers_.emplace_back([this] { Work(); });
  watcher_ = std::thread([this] { Watch(); });
}

ConnectionGate::~ConnectionGate() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  Wake();
  watcher_.join();
  for (std::thread& worker : workers_) worker.join();
  close(wake_);
}

void ConnectionGate::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

void ConnectionGate::Add(int socket) {
  auto client = std::make_unique<Client>(socket, options_.tls);
  // In the clear its silence begins here, not when the watching thread comes to it.
  if (options_.tls == nullptr) {
    Enter(*client, Phase::kIdle, options_.idle_limit);
  } else {
    Enter(*client, Phase::kHandshake, options_.handshake_limit);
  }
  {
    MutexLock lock(mutex_);
    arrived_.push_back(std::move(client));
  }
  Wake();
}

void ConnectionGate::Enter(Client& client, Phase phase, absl::Duration limit) {
  client.phase = phase;
  client.since = Now();
  client.deadline = client.since + limit;
}

void ConnectionGate::Refuse(Client& client, int status, const std::string& why) {
  const std::string answer = absl::StrCat(
      "HTTP/1.1 ", status, " ", ReasonOf(status),
      "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: ", why.size() + 1,
      "\r\n", options_.headers, "\r\n", why, "\n");
  size_t size = answer.size();
  (void)client.connection.Write(answer.data(),
                                size);  // it is small: a client that has read what came before has room
  client.connection.EndWriting();
  Enter(client, Phase::kEnding, kEndingLimit);
}

ConnectionGate::Next ConnectionGate::ReadHead(Client& client) {
  char bytes[kReadBytes];
  // A refused client may go on sending for as long as it likes; others wait meanwhile.
  for (int passed_over = 0; passed_over < kMostPassedOver;) {
    size_t size = sizeof(bytes);
    const Outcome outcome = client.connection.Read(bytes, size);
    if (outcome != Outcome::kDone) return outcome == Outcome::kBlocked ? Next::kWait : Next::kClose;
    if (client.phase == Phase::kEnding) {
      ++passed_over;
      continue;
    }
    if (client.phase == Phase::kIdle) Enter(client, Phase::kHead, options_.head_limit);
    const size_t taken = client.head.Take({bytes, size});
    client.bytes.append(bytes, taken);
    if (client.head.state() == RequestHead::State::kRefused) {
      Refuse(client, client.head.status(), client.head.why());
      continue;
    }
    if (client.head.state() == RequestHead::State::kIncomplete) continue;
    client.connection.GiveBack({bytes + taken, size - taken});
    client.connection.GiveBack(WithoutRange(client.bytes));
    client.bytes.clear();
    client.head = RequestHead();
    return Next::kServe;
  }
  return Next::kWait;
}

ConnectionGate::Next ConnectionGate::Advance(Client& client) {
  if (client.phase == Phase::kHandshake) {
    const Outcome shaken = client.connection.Handshake();
    if (shaken != Outcome::kDone) return shaken == Outcome::kBlocked ? Next::kWait : Next::kClose;
    Enter(client, Phase::kIdle, options_.idle_limit);
  }
  return ReadHead(client);
}

ConnectionGate::Next ConnectionGate::Expire(Client& client) {
  if (client.phase != Phase::kHead) return Next::kClose;
  Refuse(client, 408,
         absl::StrCat("the request's head must come within ", absl::FormatDuration(options_.head_limit)));
  return Next::kWait;
}

void ConnectionGate::MakeRoom() {
  int open = 0;
  {
    MutexLock lock(mutex_);
    open = serving_ + static_cast<int>(ready_.size() + waiting_.size());
  }
  if (open <= options_.most_connections) return;
  const auto silent = std::min_element(waiting_.begin(), waiting_.end(),
                                       [](const auto& a, const auto& b) { return a->since < b->since; });
  if (silent != waiting_.end()) waiting_.erase(silent);
}

void ConnectionGate::Watch() {
  std::vector<pollfd> polled;
  const auto handle = [&](std::list<ClientPointer>::iterator at, Next next) {
    if (next == Next::kServe) {
      MutexLock lock(mutex_);
      ready_.push_back(std::move(*at));
      changed_.NotifyOne();
    }
    if (next != Next::kWait) waiting_.erase(at);
  };
  while (true) {
    std::vector<ClientPointer> arrived;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      arrived.swap(arrived_);
    }
    for (ClientPointer& client : arrived) {
      const Client* const newest = client.get();
      waiting_.push_back(std::move(client));
      MakeRoom();
      // It may be the one that went.
      if (waiting_.empty() || waiting_.back().get() != newest) continue;
      const auto at = std::prev(waiting_.end());
      handle(at, Advance(**at));
    }
    polled.assign(1, {.fd = wake_, .events = POLLIN, .revents = 0});
    absl::Time next_end = absl::InfiniteFuture();
    for (const ClientPointer& client : waiting_) {
      polled.push_back(
          {.fd = client->connection.socket(), .events = client->connection.events(), .revents = 0});
      next_end = std::min(next_end, client->deadline);
    }
    const absl::Duration left = std::clamp(next_end - Now(), absl::ZeroDuration(), absl::Seconds(60));
    (void)poll(polled.data(), polled.size(),
               static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)))));
    uint64_t woken = 0;
    if (polled[0].revents != 0) (void)!read(wake_, &woken, sizeof(woken));
    const absl::Time now = Now();
    size_t i = 1;
    for (auto at = waiting_.begin(); at != waiting_.end(); ++i) {
      const auto here = at++;
      Client& client = **here;
      Next next = polled[i].revents == 0 ? Next::kWait : Advance(client);
      if (next == Next::kWait && now >= client.deadline) next = Expire(client);
      handle(here, next);
    }
  }
}

void ConnectionGate::Work() {
  while (true) {
    ClientPointer client;
    {
      MutexLock lock(mutex_);
      changed_.WaitUntil(mutex_, absl::InfiniteFuture(), [&] { return stopping_ || !ready_.empty(); });
      if (stopping_) return;
      client = std::move(ready_.front());
      ready_.pop_front();
      ++serving_;
    }
    if (options_.serve(client->connection)) {
      Enter(*client, Phase::kIdle, options_.idle_limit);
    } else {
      client->connection.EndWriting();
      Enter(*client, Phase::kEnding, kEndingLimit);
    }
    {
      MutexLock lock(mutex_);
      --serving_;
      arrived_.push_back(std::move(client));
    }
    Wake();
  }
}

}  // namespace medley
