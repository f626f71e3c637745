#include "runtime/wire/json_message.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "nlohmann/json.hpp"
#include "runtime/wire/enum_names.h"

namespace medley {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

// Every whole number up to here is a double.
constexpr uint64_t kLargestExact = uint64_t{1} << 53;

Json Whole(uint64_t value) { return value <= kLargestExact ? Json(value) : Json(absl::StrCat(value)); }

Json Whole(int64_t value) {
  const uint64_t size = value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  return size <= kLargestExact ? Json(value) : Json(absl::StrCat(value));
}

Json Real(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json Text(const std::string& value, const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(value) : value;
}

Json EnumValue(int number, const FieldDescriptor& field) {
  const auto* value = field.enum_type()->FindValueByNumber(number);
  return value == nullptr ? Json(number) : Json(NameOf(*value));
}

Json MessageValue(const Message& message);

// The value of a field that is not repeated (index -1) or of one of its elements.
Json Value(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? r.GetInt32(message, &field) : r.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? r.GetUInt32(message, &field) : r.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return Whole(int64_t{one ? r.GetInt64(message, &field) : r.GetRepeatedInt64(message, &field, index)});
    case FieldDescriptor::CPPTYPE_UINT64:
      return Whole(
          uint64_t{one ? r.GetUInt64(message, &field) : r.GetRepeatedUInt64(message, &field, index)});
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Real(one ? r.GetFloat(message, &field) : r.GetRepeatedFloat(message, &field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Real(one ? r.GetDouble(message, &field) : r.GetRepeatedDouble(message, &field, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? r.GetBool(message, &field) : r.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(one ? r.GetString(message, &field) : r.GetRepeatedString(message, &field, index), field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumValue(one ? r.GetEnumValue(message, &field) : r.GetRepeatedEnumValue(message, &field, index),
                       field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageValue(one ? r.GetMessage(message, &field) : r.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

std::string KeyOf(const Message& entry, const FieldDescriptor& key) {
  const Json value = Value(entry, key, -1);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Json Elements(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  Json elements = field.is_map() ? Json::object() : Json::array();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    if (!field.is_map()) {
      elements.push_back(Value(message, field, i));
      continue;
    }
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const auto& type = *field.message_type();
    elements[KeyOf(entry, *type.map_key())] = Value(entry, *type.map_value(), -1);
  }
  return elements;
}

Json MessageValue(const Message& message) {
  Json object = Json::object();
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) {
      object[field.name()] = Elements(message, field);
    } else if (!field.has_presence() || message.GetReflection()->HasField(message, &field)) {
      object[field.name()] = Value(message, field, -1);
    }
  }
  return object;
}

std::string Dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string JsonOf(const Message& message) { return Dump(MessageValue(message)); }

std::string JsonString(const std::string& text) { return Dump(Json(text)); }

}  // namespace medley
