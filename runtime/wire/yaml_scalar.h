#pragma once
#include <optional>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace medley {

// One scalar of a YAML document.
struct YamlScalar {
  enum class Style { kPlain, kQuoted };
  std::string text;
  Style style = Style::kPlain;
};

// Sets `field` of `message`, or adds an element if it is repeated. `field` is no message.
// What is wrong with the value, if it is not of the field's type; `message` is unchanged then.
std::optional<std::string> StoreScalar(const YamlScalar& scalar,
                                       const google::protobuf::FieldDescriptor& field,
                                       google::protobuf::Message& message);

// The value of `field` (index -1) or of its element `index` as YAML. `field` is no message.
std::string ScalarText(const google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor& field, int index);

// `text` as a scalar that YAML reads as this text: in quotes unless nobody could take it for anything else.
std::string QuotedText(const std::string& text);

}  // namespace medley
