#pragma once
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace medley {

// Reads a YAML document into `out` (which is cleared first), one to one: field names are keys, messages and
// maps are mappings, repeated fields sequences, bytes base64, enum values as runtime/codec/enum_names.h
// writes them. Whole numbers of fields whose name ends in _bytes may be sizes ("512MiB"). A message or
// sequence without a value is an empty one. Then holds it against the rules of runtime/codec/validate.h.
//
// InvalidArgument "FILE:LINE: FIELD PATH: PROBLEM", FILE being `file_name`, for the first of these: no YAML;
// more than one document; an unknown key (names the nearest known one); a key given twice; two members of a
// oneof; a value of another type; one that breaks a rule. What is missing is reported at the line of the
// message that it is missing from. On error `out` holds what was read so far.
absl::Status ReadYaml(const std::string& text, const std::string& file_name, google::protobuf::Message* out);

// ReadYaml of a file. NotFound or PermissionDenied with the path if it cannot be read.
absl::Status ReadYamlFile(const std::string& path, google::protobuf::Message* out);

// A document that ReadYaml reads back as an equal message, if `message` breaks no rule. Fields that are not
// set are left out.
std::string WriteYaml(const google::protobuf::Message& message);

}  // namespace medley
