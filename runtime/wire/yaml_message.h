#pragma once
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

namespace medley {

// A value that takes the place of a document's, or that the document lacks.
struct YamlOverride {
  std::string path;   // "optimizer.learning_rate", "constraints.devices[0]"
  std::string value;  // YAML
  std::string shown;  // what messages call it: "--set optimizer.learning_rate=1e-3"
};

// "PATH=VALUE" as it was given for `option` ("--set").
// InvalidArgument: no "=", or a path that is none; VALUE is not looked at.
absl::StatusOr<YamlOverride> ParseYamlOverride(const std::string& option, const std::string& text);

// Where the values of a document that was read stand. A value.
class YamlPlaces {
 public:
  // `status` with "FILE:LINE: " (or "--set PATH=VALUE: ") before it, if it is InvalidArgument and its message
  // begins with the path of a field that the document has, or has a message of; as it is otherwise.
  absl::Status Locate(const absl::Status& status) const;

 private:
  friend class YamlReader;
  std::map<std::string, std::string> places_;  // by path: "FILE:LINE"
};

// Reads a YAML document into `out` (which is cleared first), one to one: field names are keys, messages and
// maps are mappings, repeated fields sequences, bytes base64, enum values as runtime/wire/enum_names.h
// writes them. Whole numbers of fields whose name ends in _bytes may be sizes ("512MiB"). A message or
// sequence without a value is an empty one. A key that the message reserves, a field of before, is passed over. `overrides` are put into the document first, in their order. Then
// holds it against the rules of runtime/wire/validate.h. `places`, if it is given, is for errors that are
// found later.
//
// InvalidArgument "FILE:LINE: FIELD PATH: PROBLEM", FILE being `file_name`, for the first of these: not valid
// YAML; more than one document; an unknown key (names the nearest known one); a key given twice; two members
// of a oneof; a value of another type; one that breaks a rule. What is missing is reported at the line of the
// message that it is missing from; what is wrong with an override at `shown`. On error `out` holds what was
// read so far.
absl::Status ReadYaml(const std::string& text, const std::string& file_name, google::protobuf::Message* out,
                      const std::vector<YamlOverride>& overrides = {}, YamlPlaces* places = nullptr);

// The contents of a file. NotFound, PermissionDenied, FailedPrecondition (a folder) with the path if it
// cannot be read.
absl::StatusOr<std::string> ReadDocumentFile(const std::string& path);

// ReadYaml of a file. Errors of ReadDocumentFile, too.
absl::Status ReadYamlFile(const std::string& path, google::protobuf::Message* out);

// A document that ReadYaml reads back as an equal message, if `message` breaks no rule. Fields that are not
// set are left out.
std::string WriteYaml(const google::protobuf::Message& message);

}  // namespace medley
