#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/connection.h"
#include "proto/medley/v1/config.pb.h"

namespace medley {

// `medley certs`: a small authority and certificates by it. A folder has the authority in authority.pem and authority-key.pem; one for
// each daemon and each person has certificate.pem, key.pem and a copy of authority.pem. Keys are readable for their owner alone.
void AddCertificatesCommand(CLI::App& app, const Connection& connection,
                            std::function<absl::Status()>& action);

// The files of a person's folder: the one that is named (`field`: where), or else ~/.config/medley if it has a certificate. None: there
// is none, and the coordinator is asked in the clear. InvalidArgument: what is named cannot be shown (CheckTls).
absl::StatusOr<std::optional<v1::TlsConfig>> PersonalTls(const std::string& field,
                                                         const std::string& directory);

}  // namespace medley
