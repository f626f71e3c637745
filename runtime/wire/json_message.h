#pragma once
#include <string>

#include "google/protobuf/message.h"

namespace medley {

// `message` as one line of JSON, without a line break: field names are keys, enum values are words as in a
// job spec ("done"; "unspecified" where there is none), whole numbers beyond 2^53 are texts, since most
// readers would round them, as are numbers that are not finite ("nan", "inf", "-inf"); bytes are base64.
// Numbers, texts, lists and maps are there even if they are empty; messages and `optional` fields only if
// they are set. Bytes of texts that are no UTF-8 become U+FFFD.
std::string JsonOf(const google::protobuf::Message& message);

// `text` as a JSON string, in quotes.
std::string JsonString(const std::string& text);

}  // namespace medley
