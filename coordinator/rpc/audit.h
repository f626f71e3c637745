#pragma once
#include <grpcpp/server_context.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/store/store.h"
#include "google/protobuf/message.h"
#include "runtime/base/mutex.h"
#include "runtime/security/certificate.h"

namespace medley {

// Who called, by the certificate of the connection, or as the coordinator's own web server says of whom it calls for. Empty: it is not
// known, since nothing was shown.
std::string CallerOf(const grpc::ServerContext& context);
// Until when what they showed is in force; absl::InfiniteFuture(): nothing was shown.
absl::Time CallerUntil(const grpc::ServerContext& context);

// The certificate of the connection as PEM; empty: none was shown.
std::string ShownCertificate(const grpc::ServerContext& context);
// CallerOf, or where that is not known the address that the call comes from, without its port.
std::string ClientOf(const grpc::ServerContext& context);

// The certificate of the connection is a node's, or everybody may be any: on a connection in the clear, and with the name "*".
// PermissionDenied: it is another node's.
absl::Status MayBeNode(const grpc::ServerContext& context, const std::string& node);

// Writes down who changed what, and who was refused. Thread-safe.
class Audit {
 public:
  explicit Audit(Store& store) : store_(store) {}

  // Of a call that has ended with `status`: if it is one that changes something. The call's name is that of its request, what it is
  // about stands in the request's or the answer's token_id, the request's job_id or node, or else in the answer's id.
  void Write(const grpc::ServerContext& context, const google::protobuf::Message& request,
             const google::protobuf::Message& response, const grpc::Status& status);

  // Of an agent's call that got it a certificate. `message`: by what.
  void WriteCertified(const grpc::ServerContext& context, const std::string& method, const std::string& node,
                      const std::string& message);

  // Of a call that did not get in. Sixty a minute of those who are known are written down, and sixty of those who are not, and then how
  // many more there were: who knocks neither fills the disk nor hides others.
  void WriteRefusal(const Identity& who, const std::string& method, const absl::Status& why);

  // Drops what is older, and says so in the log and in the audit.
  void DropOlderThan(absl::Duration age);

 private:
  // How many are written down.
  struct Quota {
    absl::Time minute = absl::InfinitePast();
    int of_minute = 0;
    int left_out = 0;
  };
  bool Append(v1::AuditRecord record);

  Store& store_;
  Mutex mutex_;
  Quota known_ ABSL_GUARDED_BY(mutex_), unknown_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace medley
