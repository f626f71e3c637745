#include "runtime/wire/enum_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace medley {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

constexpr absl::string_view kUnspecified = "UNSPECIFIED";

std::string PrefixOf(const EnumDescriptor& type) {
  const std::string& first = type.value(0)->name();
  return absl::EndsWith(first, kUnspecified) ? first.substr(0, first.size() - kUnspecified.size()) : "";
}

}  // namespace

std::string NameOf(const EnumValueDescriptor& value) {
  const std::string prefix = PrefixOf(*value.type());
  const bool prefixed = absl::StartsWith(value.name(), prefix);
  return absl::AsciiStrToLower(prefixed ? value.name().substr(prefix.size()) : value.name());
}

const EnumValueDescriptor* FindEnumValue(const EnumDescriptor& type, const std::string& text) {
  const std::string wanted = text == "1f1b"                ? "one_forward_one_backward"
                             : text == "zb-h1"             ? "zero_bubble_h1"
                             : text == "zb-v"              ? "zero_bubble_v"
                             : text == "interleaved-1f1b"  ? "interleaved_1f1b"
                             : text == "interleaved-gpipe" ? "interleaved_gpipe"
                                                           : text;
  for (int i = 1; i < type.value_count(); ++i) {
    if (NameOf(*type.value(i)) == wanted) return type.value(i);
  }
  return nullptr;
}

std::string EnumNames(const EnumDescriptor& type) {
  std::string names;
  for (int i = 1; i < type.value_count(); ++i) {
    absl::StrAppend(&names, i > 1 ? ", " : "", NameOf(*type.value(i)));
  }
  return names;
}

}  // namespace medley
