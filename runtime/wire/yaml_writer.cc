#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "runtime/wire/yaml_message.h"
#include "runtime/wire/yaml_scalar.h"

namespace medley {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string WriteFields(const Message& message, int indent);

// What stands behind "key:", or behind "-" if `indent` is that of the dash.
std::string WriteNested(const Message& message, int indent) {
  const std::string fields = WriteFields(message, indent + 2);
  return fields.empty() ? " {}\n" : absl::StrCat("\n", fields);
}

std::string WriteElements(const Message& message, const FieldDescriptor& field, int indent) {
  const Reflection& reflection = *message.GetReflection();
  std::string text = "\n";
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const std::string fields = WriteFields(reflection.GetRepeatedMessage(message, &field, i), indent + 4);
    absl::StrAppend(&text, std::string(indent + 2, ' '), "- ",
                    fields.empty() ? "{}\n" : absl::string_view(fields).substr(indent + 4));
  }
  return text;
}

std::string WriteEntries(const Message& message, const FieldDescriptor& field, int indent) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& key = *field.message_type()->map_key();
  const FieldDescriptor& value = *field.message_type()->map_value();
  std::string text = "\n";
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    absl::StrAppend(&text, std::string(indent + 2, ' '), ScalarText(entry, key, -1), ":");
    if (value.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      absl::StrAppend(&text, WriteNested(entry.GetReflection()->GetMessage(entry, &value), indent + 2));
    } else {
      absl::StrAppend(&text, " ", ScalarText(entry, value, -1), "\n");
    }
  }
  return text;
}

std::string WriteList(const Message& message, const FieldDescriptor& field) {
  std::vector<std::string> elements;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    elements.push_back(ScalarText(message, field, i));
  }
  return absl::StrCat(" [", absl::StrJoin(elements, ", "), "]\n");
}

std::string WriteFields(const Message& message, int indent) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  std::string text;
  for (const FieldDescriptor* field : fields) {
    absl::StrAppend(&text, std::string(indent, ' '), field->name(), ":");
    if (field->is_map()) {
      absl::StrAppend(&text, WriteEntries(message, *field, indent));
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      absl::StrAppend(&text, field->is_repeated() ? WriteList(message, *field)
                                                  : absl::StrCat(" ", ScalarText(message, *field, -1), "\n"));
    } else if (field->is_repeated()) {
      absl::StrAppend(&text, WriteElements(message, *field, indent));
    } else {
      absl::StrAppend(&text, WriteNested(reflection.GetMessage(message, field), indent));
    }
  }
  return text;
}

}  // namespace

std::string WriteYaml(const Message& message) { return WriteFields(message, 0); }

}  // namespace medley
