#pragma once
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "runtime/wire/yaml_message.h"

namespace medley {

// ReadYamlFile of a file that the user named. InvalidArgument whatever is wrong, a file that is not there
// too.
inline absl::Status ReadInputFile(const std::string& path, google::protobuf::Message* out) {
  const absl::Status status = ReadYamlFile(path, out);
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

}  // namespace medley
