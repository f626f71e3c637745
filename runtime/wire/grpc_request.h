#pragma once
#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <string>

#include "absl/strings/string_view.h"
#include "runtime/log/request_id.h"

namespace medley {

// The id of the call that is served: the caller's own if it is one, else a new one. It goes back with the answer's trailing metadata. Once a
// call, before it is answered.
inline std::string TakeRequestId(grpc::ServerContextBase& context) {
  const auto given = context.client_metadata().find(kRequestIdKey);
  std::string id = RequestIdOr(given == context.client_metadata().end()
                                   ? absl::string_view()
                                   : absl::string_view(given->second.data(), given->second.size()));
  context.AddTrailingMetadata(kRequestIdKey, id);
  return id;
}

// Sends the id of the request that this thread serves, if it serves one, with a call that is not under way yet.
inline void SendRequestId(grpc::ClientContext& context) {
  if (!CurrentRequestId().empty()) context.AddMetadata(kRequestIdKey, CurrentRequestId());
}

// The id of a call that has ended, as whoever served it says; empty: nobody did.
inline std::string AnsweredRequestId(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find(kRequestIdKey);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace medley
