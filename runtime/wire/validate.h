#pragma once
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace medley {

// One value that a rule of proto/medley/v1/rules.proto refuses.
struct Violation {
  std::string path;     // from the message: "batch.sequences", "plan.units[2].devices", "jobs[cpu0]"
  std::string problem;  // the value and what is allowed: "0 is not in [1, 1000000]"
};

// The first value of `message`, in the order of declaration and into all its parts, that breaks its field's
// rule. None: all hold. Beside the rules of each field, for every field:
//   strings, bytes, maps and repeated fields have at most 4096 bytes or elements where max_size says nothing,
//   a number is not NaN, an enum has one of its values, an element of a repeated enum is not UNSPECIFIED,
//   an identifier is not made of dots alone.
// Fields that are not set and not `required` are not looked at; those without presence (numbers, strings)
// always are.
std::optional<Violation> FindViolation(const google::protobuf::Message& message);

// InvalidArgument "PATH: PROBLEM" if there is a violation.
absl::Status ValidateMessage(const google::protobuf::Message& message);

// What a number of this field may be, for messages: "in [1, 1000000]", "at least 1", "in [0, 4294967295]".
std::string AllowedNumbers(const google::protobuf::FieldDescriptor& field);

}  // namespace medley
