#pragma once
#include <string>

#include "google/protobuf/descriptor.h"

namespace medley {

// How people write an enum's value: in lower case, without its prefix. "shuffled" for ORDER_SHUFFLED. The
// prefix is what the enum's UNSPECIFIED value begins with.
std::string NameOf(const google::protobuf::EnumValueDescriptor& value);

// The value that `text` names. Schedules also by the names of runtime/ir/plan/plan.h ("1f1b" is read as
// one_forward_one_backward). Null if there is none, and for "unspecified", which is written by leaving the key out.
const google::protobuf::EnumValueDescriptor* FindEnumValue(const google::protobuf::EnumDescriptor& type,
                                                           const std::string& text);

// The names that FindEnumValue knows, separated by ", ".
std::string EnumNames(const google::protobuf::EnumDescriptor& type);

}  // namespace medley
