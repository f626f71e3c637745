#pragma once
#include <openssl/ssl.h>
#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "runtime/security/openssl_handles.h"

namespace medley {

// One client's connection, in the clear or over TLS. Nothing here waits but where it says so. One thread at a time.
class WebConnection {
 public:
  // What a call that does not wait comes to: kBlocked waits for what `events` says, kEnded is over, by its end or a failure.
  enum class Outcome { kDone, kBlocked, kEnded };

  // Takes the socket over, which does not block from then on. `tls`: null in the clear; outlives it.
  WebConnection(int socket, SSL_CTX* tls);
  ~WebConnection();
  WebConnection(const WebConnection&) = delete;
  WebConnection& operator=(const WebConnection&) = delete;

  // Of TLS, which it must have.
  Outcome Handshake();
  // At least one byte, of those that were given back first. `size`: room on the way in, bytes on the way out.
  Outcome Read(char* bytes, size_t& size);
  Outcome Write(const char* bytes, size_t& size);
  // What was read too far: is read again.
  void GiveBack(absl::string_view bytes) { given_back_.insert(0, bytes.data(), bytes.size()); }
  // Says that nothing more comes from here.
  void EndWriting();

  // Waits until a blocked call can go on. False: not by `deadline`.
  bool Await(absl::Time deadline) const;
  // Whether the other side has not gone.
  bool IsOpen();

  // How many it has been asked for, with this one.
  int CountRequest() { return ++requests_; }

  int socket() const { return socket_; }
  SSL* tls() const { return tls_.get(); }  // null: in the clear
  short events() const { return events_; }

 private:
  Outcome OutcomeOf(int result);

  const int socket_;
  const std::unique_ptr<SSL, OpensslFree<SSL_free>> tls_;
  short events_ = 0;
  int requests_ = 0;
  std::string given_back_;
};

}  // namespace medley
