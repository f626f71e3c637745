#pragma once
#include <string>

#include "absl/status/status.h"
#include "proto/medley/v1/config.pb.h"

namespace medley {

// Replaces the key and the certificate that `tls` names by others (PEM), both at one moment, which is durable: they stand in one file
// beside the key, "<tls.key>.pair", that its owner alone can read, and from the first time on both names are links to it. What ends this
// meanwhile, a loss of power too, leaves the old pair or the new one under the two names.
// InvalidArgument: the two do not fit each other or tls.authority; FailedPrecondition: they are not in force (CheckTls). Otherwise the errors of AtomicFile.
// After an error the old pair stands.
absl::Status ReplacePair(const v1::TlsConfig& tls, const std::string& key, const std::string& certificate);

}  // namespace medley
