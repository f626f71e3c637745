#include "runtime/daemon/start_web.h"

#include "runtime/base/files/atomic_file.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::StatusOr<std::unique_ptr<WebServer>> StartWeb(const std::string& http_address,
                                                    const std::string& http_address_file,
                                                    const v1::TlsConfig* tls, WebServer::Handler handler) {
  if (http_address.empty()) return std::unique_ptr<WebServer>();
  ASSIGN_OR_RETURN(
      std::unique_ptr<WebServer> web,
      WebServer::Start(
          {.field = "http_address", .address = http_address, .tls = tls, .handler = std::move(handler)}));
  if (!http_address_file.empty())
    RETURN_IF_ERROR(
        Annotate(WriteFileAtomically(http_address_file, web->address() + "\n"), "http_address_file"));
  return web;
}

}  // namespace medley
