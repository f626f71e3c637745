#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace medley {

// Reads what a daemon is configured by: the YAML file (empty: none), and over it environment variables, for containers and
// units. Each field has one, named `prefix` and the field's name in capitals: MEDLEY_AGENT_LISTEN_ADDRESS. Its value is YAML, as
// it would stand in the file; that of a text is taken as it is. `environment`: "NAME=VALUE", ended by null, as environ.
//
// Errors of ReadYamlFile, with the variable's name where its value is at fault. InvalidArgument: a variable that begins with
// the prefix and is no field's (names the nearest one), but for what Kubernetes sets for services of such a name.
absl::Status ReadDaemonConfig(const std::string& file, const std::string& prefix,
                              const char* const* environment, google::protobuf::Message* config);

// The fields of two configurations that are not alike, by name. Both are of one type.
std::vector<std::string> ChangedFields(const google::protobuf::Message& before,
                                       const google::protobuf::Message& after);

}  // namespace medley
