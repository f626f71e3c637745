#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/web/web_server.h"

namespace medley {

// The web server of a daemon, at its http_address, which it writes to http_address_file. Null: the address is empty, and there is none.
// Errors of WebServer::Start; those of the file.
absl::StatusOr<std::unique_ptr<WebServer>> StartWeb(const std::string& http_address,
                                                    const std::string& http_address_file,
                                                    const v1::TlsConfig* tls, WebServer::Handler handler);

}  // namespace medley
