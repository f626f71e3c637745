#include "runtime/wire/random_message.h"

#include <algorithm>
#include <string>

#include "google/protobuf/descriptor.h"
#include "proto/medley/v1/rules.pb.h"

namespace medley {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

double RandomNumber(const v1::Rule& rule, double low, double high, std::mt19937_64& random) {
  const double minimum = std::max(low, rule.has_min() ? rule.min() : low);
  const double maximum = std::min(high, rule.has_max() ? rule.max() : high);
  switch (random() % 4) {
    case 0:
      return minimum;
    case 1:
      return maximum;
    default:
      return std::uniform_real_distribution<double>(minimum, std::max(minimum, maximum))(random);
  }
}

std::string RandomText(const v1::Rule& rule, std::mt19937_64& random) {
  static const std::string kIdentifier = "abcXYZ019-_.";
  static const std::string kAny = kIdentifier + " :#'\"\\/{}[],&*!|>%@`~\n\t?";
  static const char* const kOdd[] = {"null", "~",   "true", "12", "1e3", "- a", "\xc3\xa9t\xc3\xa9",
                                     " ",    "---", ".inf"};
  if (!rule.identifier() && random() % 4 == 0) return kOdd[random() % std::size(kOdd)];
  const std::string& letters = rule.identifier() ? kIdentifier : kAny;
  std::string text = "a";
  for (size_t i = random() % 12; i > 0; --i) text += letters[random() % letters.size()];
  return text;
}

void SetRandomly(Message& message, const FieldDescriptor& field, std::mt19937_64& random) {
  const google::protobuf::Reflection& r = *message.GetReflection();
  const v1::Rule& rule = field.options().GetExtension(v1::rule);
  const bool add = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32: {
      const auto value = static_cast<uint32_t>(RandomNumber(rule, 0, 4294967295.0, random));
      return add ? r.AddUInt32(&message, &field, value) : r.SetUInt32(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      const auto value = static_cast<uint64_t>(RandomNumber(rule, 0, 1.8e19, random));
      return add ? r.AddUInt64(&message, &field, value) : r.SetUInt64(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      const auto value = static_cast<int32_t>(RandomNumber(rule, -2e9, 2e9, random));
      return add ? r.AddInt32(&message, &field, value) : r.SetInt32(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double value = RandomNumber(rule, -1e30, 1e30, random);
      return add ? r.AddDouble(&message, &field, value) : r.SetDouble(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_BOOL:
      return r.SetBool(&message, &field, random() % 2 == 0);
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string value = RandomText(rule, random);
      return add ? r.AddString(&message, &field, value) : r.SetString(&message, &field, value);
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = 1 + static_cast<int>(random() % (field.enum_type()->value_count() - 1));
      return add ? r.AddEnumValue(&message, &field, number) : r.SetEnumValue(&message, &field, number);
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return FillRandomly(add ? *r.AddMessage(&message, &field) : *r.MutableMessage(&message, &field),
                          random);
    default:
      return;
  }
}

}  // namespace

void FillRandomly(Message& message, std::mt19937_64& random) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    const v1::Rule& rule = field.options().GetExtension(v1::rule);
    const bool must = rule.required() || rule.min() > 0;
    // A map's entry chosen twice would have two equal keys; one is enough.
    const size_t most = field.is_map() ? 1 : field.is_repeated() ? 3 : 1;
    const size_t count = random() % (most + 1);
    for (size_t k = must ? std::max<size_t>(count, 1) : count; k > 0; --k)
      SetRandomly(message, field, random);
  }
}

}  // namespace medley
