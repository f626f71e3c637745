#include "runtime/wire/validate.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/medley/v1/rules.pb.h"
#include "runtime/base/valid_utf8.h"
#include "runtime/wire/enum_names.h"
#include "runtime/wire/number_text.h"

namespace medley {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr uint32_t kDefaultMaximumSize = 4096;

const v1::Rule& RuleOf(const FieldDescriptor& field) { return field.options().GetExtension(v1::rule); }

uint32_t MaximumSize(const v1::Rule& rule) {
  return rule.max_size() != 0 ? rule.max_size() : kDefaultMaximumSize;
}

std::optional<std::string> NumberProblem(const FieldDescriptor& field, double value,
                                         const std::string& text) {
  if (std::isnan(value)) return "nan is not a number";
  const v1::Rule& rule = RuleOf(field);
  if ((rule.has_min() && value < rule.min()) || (rule.has_max() && value > rule.max())) {
    return absl::StrCat(text, " is not ", AllowedNumbers(field));
  }
  return std::nullopt;
}

std::optional<std::string> TextProblem(const FieldDescriptor& field, const std::string& value) {
  // Repeated fields: `required` and max_size speak of their elements' number; an element may be as long as
  // any text.
  const v1::Rule& rule = RuleOf(field);
  const uint32_t maximum = field.is_repeated() ? kDefaultMaximumSize : MaximumSize(rule);
  if (value.size() > maximum)
    return absl::StrCat("has ", value.size(), " bytes; at most ", maximum, " are allowed");
  if (field.type() == FieldDescriptor::TYPE_STRING && !IsUtf8(value)) {
    return absl::StrCat("\"", absl::CHexEscape(value.substr(0, 80)), "\" is not UTF-8");
  }
  // It would end a path, or a line of YAML, in the middle.
  if (field.type() == FieldDescriptor::TYPE_STRING && value.find('\0') != std::string::npos) {
    return absl::StrCat("\"", absl::CHexEscape(value.substr(0, 80)), "\" has a NUL byte");
  }
  if (value.empty()) {
    if (!rule.required()) return std::nullopt;
    return field.is_repeated() ? "an element is empty" : "is required, but empty";
  }
  if (!rule.identifier()) return std::nullopt;
  for (const char c : value) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.') continue;
    return absl::StrCat("\"", absl::Utf8SafeCHexEscape(value),
                        "\" may have letters from a to z and A to Z, digits, \"-\", \"_\" and \".\" only");
  }
  // ".." would lead out of the folder that the name is to be a part of.
  if (value.find_first_not_of('.') == std::string::npos)
    return absl::StrCat("\"", value, "\" has nothing but dots");
  return std::nullopt;
}

std::optional<std::string> EnumProblem(const FieldDescriptor& field, int number) {
  const google::protobuf::EnumDescriptor& type = *field.enum_type();
  if (type.FindValueByNumber(number) == nullptr) {
    return absl::StrCat(number, " is none of its values: ", EnumNames(type));
  }
  if (number == 0 && (field.is_repeated() || RuleOf(field).required())) {
    return absl::StrCat("must be one of ", EnumNames(type));
  }
  return std::nullopt;
}

// The value of a field that is not repeated (index -1) or of one of its elements.
std::optional<std::string> ScalarProblem(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  const auto number = [&](auto value) {
    const double approximation = static_cast<double>(value);
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      return NumberProblem(field, approximation, NumberText(approximation));
    } else {
      return NumberProblem(field, approximation, absl::StrCat(value));
    }
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return number(one ? r.GetInt32(message, &field) : r.GetRepeatedInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_INT64:
      return number(one ? r.GetInt64(message, &field) : r.GetRepeatedInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT32:
      return number(one ? r.GetUInt32(message, &field) : r.GetRepeatedUInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return number(one ? r.GetUInt64(message, &field) : r.GetRepeatedUInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return number(one ? r.GetFloat(message, &field) : r.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number(one ? r.GetDouble(message, &field) : r.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return TextProblem(field,
                         one ? r.GetString(message, &field) : r.GetRepeatedString(message, &field, index));
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumProblem(
          field, one ? r.GetEnumValue(message, &field) : r.GetRepeatedEnumValue(message, &field, index));
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Violation> Find(const Message& message, const std::string& prefix);

std::string MapKeyText(const Message& entry) {
  const FieldDescriptor& key = *entry.GetDescriptor()->map_key();
  if (key.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return entry.GetReflection()->GetString(entry, &key);
  return "";
}

std::optional<Violation> FindInRepeated(const Message& message, const FieldDescriptor& field,
                                        const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  const v1::Rule& rule = RuleOf(field);
  const int size = reflection.FieldSize(message, &field);
  if (size == 0 && rule.required()) return Violation{path, "is required, but empty"};
  if (static_cast<uint32_t>(size) > MaximumSize(rule)) {
    return Violation{path,
                     absl::StrCat("has ", size, " elements; at most ", MaximumSize(rule), " are allowed")};
  }
  for (int i = 0; i < size; ++i) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const Message& element = reflection.GetRepeatedMessage(message, &field, i);
      const std::string index = field.is_map() ? MapKeyText(element) : absl::StrCat(i);
      if (auto found = Find(element, absl::StrCat(path, "[", index, "]"))) return found;
    } else if (auto problem = ScalarProblem(message, field, i)) {
      return Violation{absl::StrCat(path, "[", i, "]"), *std::move(problem)};
    }
  }
  return std::nullopt;
}

std::optional<Violation> FindInField(const Message& message, const FieldDescriptor& field,
                                     const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) return FindInRepeated(message, field, path);
  if (field.has_presence() && !reflection.HasField(message, &field)) {
    if (RuleOf(field).required()) return Violation{path, "is required, but missing"};
    return std::nullopt;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
    return Find(reflection.GetMessage(message, &field), path);
  if (auto problem = ScalarProblem(message, field, -1)) return Violation{path, *std::move(problem)};
  return std::nullopt;
}

std::optional<Violation> Find(const Message& message, const std::string& prefix) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    // A map's entry is named by its key already.
    const std::string path = prefix.empty()               ? field.name()
                             : type.options().map_entry() ? prefix
                                                          : absl::StrCat(prefix, ".", field.name());
    if (auto found = FindInField(message, field, path)) return found;
  }
  return std::nullopt;
}

double SmallestOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return std::numeric_limits<int32_t>::min();
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(std::numeric_limits<int64_t>::min());
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return 0;
    default:
      return -std::numeric_limits<double>::infinity();
  }
}

double LargestOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return std::numeric_limits<int32_t>::max();
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::numeric_limits<uint32_t>::max();
    // Those of 64 bits are as good as no bound to people.
    default:
      return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

std::string AllowedNumbers(const FieldDescriptor& field) {
  const v1::Rule& rule = RuleOf(field);
  const double minimum = rule.has_min() ? rule.min() : SmallestOf(field);
  const double maximum = rule.has_max() ? rule.max() : LargestOf(field);
  if (std::isinf(minimum) && std::isinf(maximum)) return "a number";
  if (std::isinf(maximum)) return absl::StrCat("at least ", NumberText(minimum));
  if (std::isinf(minimum)) return absl::StrCat("at most ", NumberText(maximum));
  return absl::StrCat("in [", NumberText(minimum), ", ", NumberText(maximum), "]");
}

std::optional<Violation> FindViolation(const Message& message) { return Find(message, ""); }

absl::Status ValidateMessage(const Message& message) {
  const std::optional<Violation> violation = FindViolation(message);
  if (!violation) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(violation->path, ": ", violation->problem));
}

}  // namespace medley
