#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/medley/v1/config.pb.h"
#include "runtime/security/certificate.h"

namespace medley {

struct WebRequest {
  std::string method;                                  // "GET", "POST"
  std::string path;                                    // "/api/v1/GetJob"
  std::multimap<std::string, std::string> parameters;  // of the query
  std::string content_type;
  std::string body;
  // Of the connection's certificate, with its grants; on a server in the clear an admin without a name.
  Identity caller;
  absl::Time caller_until = absl::InfiniteFuture();  // that certificate is in force
  // Whether who asks is still there. From one thread at a time, until the request is answered.
  std::function<bool()> is_open = [] { return true; };
};

struct WebAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  // If it is set, the body is what this writes, as it comes. It returns once all is written, or `write` says false: nobody reads any more.
  // Without anything to write for a while it writes "", which looks after the reader.
  std::function<void(const std::function<bool(const std::string&)>& write)> stream;
};

// A small server of HTTP, for pages, metrics and scripts, with TLS where there are certificates. Thread-safe handlers, each call in a
// thread of the server's. What a client may send, hold and wait for is limited (README.md beside this file), and a client that says
// nothing holds no thread.
//
// Who calls over TLS may show a certificate, as on gRPC; what needs one is the handler's to say. A page of another site cannot make a
// browser do anything here: what is posted must come from the server's own pages, and a server that only this machine reaches answers to
// no other name than this machine's.
//
// Each request has an id (runtime/log/request_id.h), which the handler's thread serves: the one of its header X-Request-Id, or a new one. It goes
// back in that header.
class WebServer {
 public:
  using Handler = std::function<WebAnswer(const WebRequest&)>;
  struct Options {
    std::string field;                   // of the configuration, for messages: "http_address"
    std::string address;                 // "host:port"
    const v1::TlsConfig* tls = nullptr;  // null: in the clear; outlives the server
    Handler handler;
  };
  // InvalidArgument: certificates that cannot be shown. FailedPrecondition: they are not in force. Unavailable: the address is in use or not this machine's.
  static absl::StatusOr<std::unique_ptr<WebServer>> Start(Options options);
  // Streams must have ended, or end soon.
  ~WebServer();

  // "host:port", with the port that is listened at.
  const std::string& address() const;

 private:
  struct Impl;
  explicit WebServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace medley
