#pragma once
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/mutex.h"
#include "runtime/web/request_head.h"
#include "runtime/web/web_connection.h"

namespace medley {

// Connections between their requests. One thread waits for all of them: for their handshakes, their silence, and until a request's head is
// there as a whole. Only then a worker's thread takes the connection, so that clients who say nothing, or little at a time, hold none.
//
// Thread-safe.
class ConnectionGate {
 public:
  // Of all clients together. A further one takes the place of the one that has been silent for longest; where none is silent it is closed.
  static constexpr int kMostConnections = 1024;
  struct Options {
    SSL_CTX* tls = nullptr;  // null: in the clear; outlives the gate
    int workers = 1;
    int most_connections = kMostConnections;
    absl::Duration handshake_limit, head_limit;  // for all of it
    absl::Duration idle_limit;  // until a request's first byte; the connection is closed without a word
    // What every answer has, lines that end in "\r\n".
    std::string headers;
    // Answers a request, whose head is the next to be read; in a worker's thread. False: the connection ends.
    std::function<bool(WebConnection& connection)> serve;
  };
  explicit ConnectionGate(Options options);
  // Requests that are served must have ended, or end soon.
  ~ConnectionGate();

  // Takes the socket over.
  void Add(int socket);

 private:
  enum class Phase { kHandshake, kIdle, kHead, kEnding };  // the first over TLS alone
  struct Client {
    explicit Client(int socket, SSL_CTX* tls) : connection(socket, tls) {}
    WebConnection connection;
    Phase phase = Phase::kHandshake;
    absl::Time since, deadline;
    RequestHead head;
    std::string bytes;  // of the head
  };
  using ClientPointer = std::unique_ptr<Client>;
  enum class Next { kWait, kServe, kClose };

  void Watch();
  void Work();
  // Goes on with a connection as far as it can without waiting.
  Next Advance(Client& client);
  Next ReadHead(Client& client);
  // Ends it with an answer, as far as the client takes that.
  void Refuse(Client& client, int status, const std::string& why);
  void Enter(Client& client, Phase phase, absl::Duration limit);
  // Its time is over.
  Next Expire(Client& client);
  void MakeRoom();
  void Wake();

  const Options options_;
  const int wake_;                    // an eventfd
  std::list<ClientPointer> waiting_;  // of the watching thread
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<ClientPointer> arrived_ ABSL_GUARDED_BY(mutex_);  // new ones, and those that were served
  std::deque<ClientPointer> ready_ ABSL_GUARDED_BY(mutex_);
  int serving_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
  std::thread watcher_;
};

}  // namespace medley
