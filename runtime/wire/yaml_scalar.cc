#include "runtime/wire/yaml_scalar.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/bytes.h"
#include "runtime/wire/enum_names.h"
#include "runtime/wire/number_text.h"
#include "runtime/wire/validate.h"
#include "yaml-cpp/yaml.h"

namespace medley {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Shown(const YamlScalar& scalar) {
  return scalar.style == YamlScalar::Style::kQuoted ? absl::StrCat("\"", absl::CHexEscape(scalar.text), "\"")
                                                    : absl::CHexEscape(scalar.text);
}

bool IsDigits(absl::string_view text) {
  if (absl::StartsWith(text, "-") || absl::StartsWith(text, "+")) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// Why `scalar` is no whole number of the field's type.
std::string NoWholeNumber(const YamlScalar& scalar, const FieldDescriptor& field) {
  const bool plain = scalar.style == YamlScalar::Style::kPlain;
  if (plain && IsDigits(scalar.text)) return absl::StrCat(scalar.text, " is not ", AllowedNumbers(field));
  return absl::StrCat(Shown(scalar), " is not a whole number",
                      absl::EndsWith(field.name(), "_bytes") ? " or a size such as 512MiB" : "");
}

template <typename T>
std::optional<T> ReadInteger(const YamlScalar& scalar, const FieldDescriptor& field) {
  T value;
  const bool plain = scalar.style == YamlScalar::Style::kPlain;
  // SimpleAtoi reads blanks at the ends and a sign before an unsigned number, too.
  if (plain && IsDigits(scalar.text) && absl::SimpleAtoi(scalar.text, &value)) return value;
  if (!absl::EndsWith(field.name(), "_bytes") || IsDigits(scalar.text)) return std::nullopt;
  const int64_t size = ParseBytes(scalar.text).value;
  if (size < 0 || static_cast<uint64_t>(size) > static_cast<uint64_t>(std::numeric_limits<T>::max()))
    return std::nullopt;
  return static_cast<T>(size);
}

std::optional<double> ReadDouble(const YamlScalar& scalar) {
  if (scalar.style == YamlScalar::Style::kQuoted) return std::nullopt;
  const std::string& text = scalar.text;
  if (text == ".inf" || text == "+.inf") return std::numeric_limits<double>::infinity();
  if (text == "-.inf") return -std::numeric_limits<double>::infinity();
  if (text == ".nan") return std::numeric_limits<double>::quiet_NaN();
  double value;
  // Letters other than an exponent's would be hexadecimal digits or the C library's "inf" and "nan".
  if (text.find_first_not_of("+-.0123456789eE") != std::string::npos || !absl::SimpleAtod(text, &value)) {
    return std::nullopt;
  }
  return value;
}

template <typename T, typename Set>
std::optional<std::string> StoreInteger(const YamlScalar& scalar, const FieldDescriptor& field, Set set) {
  const std::optional<T> value = ReadInteger<T>(scalar, field);
  if (!value) return NoWholeNumber(scalar, field);
  set(*value);
  return std::nullopt;
}

template <typename Set>
std::optional<std::string> StoreDouble(const YamlScalar& scalar, Set set) {
  const std::optional<double> value = ReadDouble(scalar);
  if (!value) return absl::StrCat(Shown(scalar), " is not a number");
  set(*value);
  return std::nullopt;
}

template <typename Set>
std::optional<std::string> StoreText(const YamlScalar& scalar, const FieldDescriptor& field, Set set) {
  if (field.type() != FieldDescriptor::TYPE_BYTES) {
    set(scalar.text);
    return std::nullopt;
  }
  std::string bytes;
  if (!absl::Base64Unescape(scalar.text, &bytes)) return absl::StrCat(Shown(scalar), " is not base64");
  set(bytes);
  return std::nullopt;
}

template <typename Set>
std::optional<std::string> StoreBool(const YamlScalar& scalar, Set set) {
  const bool plain = scalar.style == YamlScalar::Style::kPlain;
  if (!plain || (scalar.text != "true" && scalar.text != "false")) {
    return absl::StrCat(Shown(scalar), " is neither true nor false");
  }
  set(scalar.text == "true");
  return std::nullopt;
}

template <typename Set>
std::optional<std::string> StoreEnum(const YamlScalar& scalar, const FieldDescriptor& field, Set set) {
  const google::protobuf::EnumValueDescriptor* value = FindEnumValue(*field.enum_type(), scalar.text);
  if (value == nullptr) {
    return absl::StrCat("\"", absl::CHexEscape(scalar.text), "\" is none of ", EnumNames(*field.enum_type()));
  }
  set(value->number());
  return std::nullopt;
}

}  // namespace

std::optional<std::string> StoreScalar(const YamlScalar& scalar, const FieldDescriptor& field,
                                       Message& message) {
  const Reflection& r = *message.GetReflection();
  const bool add = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return StoreInteger<int32_t>(scalar, field, [&](int32_t v) {
        add ? r.AddInt32(&message, &field, v) : r.SetInt32(&message, &field, v);
      });
    case FieldDescriptor::CPPTYPE_INT64:
      return StoreInteger<int64_t>(scalar, field, [&](int64_t v) {
        add ? r.AddInt64(&message, &field, v) : r.SetInt64(&message, &field, v);
      });
    case FieldDescriptor::CPPTYPE_UINT32:
      return StoreInteger<uint32_t>(scalar, field, [&](uint32_t v) {
        add ? r.AddUInt32(&message, &field, v) : r.SetUInt32(&message, &field, v);
      });
    case FieldDescriptor::CPPTYPE_UINT64:
      return StoreInteger<uint64_t>(scalar, field, [&](uint64_t v) {
        add ? r.AddUInt64(&message, &field, v) : r.SetUInt64(&message, &field, v);
      });
    case FieldDescriptor::CPPTYPE_FLOAT:
      return StoreDouble(scalar, [&](double v) {
        const float f = static_cast<float>(v);
        add ? r.AddFloat(&message, &field, f) : r.SetFloat(&message, &field, f);
      });
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return StoreDouble(scalar, [&](double v) {
        add ? r.AddDouble(&message, &field, v) : r.SetDouble(&message, &field, v);
      });
    case FieldDescriptor::CPPTYPE_BOOL:
      return StoreBool(
          scalar, [&](bool v) { add ? r.AddBool(&message, &field, v) : r.SetBool(&message, &field, v); });
    case FieldDescriptor::CPPTYPE_STRING:
      return StoreText(scalar, field, [&](const std::string& v) {
        add ? r.AddString(&message, &field, v) : r.SetString(&message, &field, v);
      });
    case FieldDescriptor::CPPTYPE_ENUM:
      return StoreEnum(scalar, field, [&](int v) {
        add ? r.AddEnumValue(&message, &field, v) : r.SetEnumValue(&message, &field, v);
      });
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "is a message, not a value";
  }
  return std::nullopt;
}

std::string ScalarText(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(one ? r.GetInt32(message, &field) : r.GetRepeatedInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(one ? r.GetInt64(message, &field) : r.GetRepeatedInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(one ? r.GetUInt32(message, &field) : r.GetRepeatedUInt32(message, &field, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(one ? r.GetUInt64(message, &field) : r.GetRepeatedUInt64(message, &field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return NumberText(one ? r.GetFloat(message, &field) : r.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberText(one ? r.GetDouble(message, &field) : r.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (one ? r.GetBool(message, &field) : r.GetRepeatedBool(message, &field, index)) ? "true"
                                                                                            : "false";
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value = one ? r.GetEnum(message, &field) : r.GetRepeatedEnum(message, &field, index);
      return NameOf(*value);
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text =
          one ? r.GetString(message, &field) : r.GetRepeatedString(message, &field, index);
      return QuotedText(field.type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(text) : text);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "";
  }
  return "";
}

std::string QuotedText(const std::string& text) {
  static const char* const kWords[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
  bool plain = !text.empty() && (absl::ascii_isalpha(text[0]) || text[0] == '/');
  for (const char c : text) plain = plain && (absl::ascii_isalnum(c) || strchr("_-./", c) != nullptr);
  for (const char* word : kWords) plain = plain && !absl::EqualsIgnoreCase(text, word);
  if (plain) return text;
  YAML::Emitter emitter;
  emitter << YAML::DoubleQuoted << text;
  return emitter.c_str();
}

}  // namespace medley
