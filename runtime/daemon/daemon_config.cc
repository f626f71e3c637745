#include "runtime/daemon/daemon_config.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/nearest_name.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

using google::protobuf::FieldDescriptor;

std::string VariableOf(const std::string& prefix, const FieldDescriptor& field) {
  return absl::StrCat(prefix, absl::AsciiStrToUpper(field.name()));
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

// Of a service that is called like the daemon: MEDLEY_COORDINATOR_SERVICE_HOST, MEDLEY_COORDINATOR_PORT_7070_TCP.
bool IsOfKubernetesService(absl::string_view name_behind_prefix) {
  return absl::StartsWith(name_behind_prefix, "SERVICE_") || name_behind_prefix == "PORT" ||
         absl::StartsWith(name_behind_prefix, "PORT_");
}

absl::StatusOr<std::vector<YamlOverride>> OverridesOf(const std::string& prefix,
                                                      const char* const* environment,
                                                      const google::protobuf::Descriptor& type) {
  std::vector<YamlOverride> overrides;
  for (; *environment != nullptr; ++environment) {
    const absl::string_view entry = *environment;
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos || !absl::StartsWith(entry, prefix)) continue;
    const std::string name(entry.substr(0, equals));
    const absl::string_view value = entry.substr(equals + 1);
    const std::string field_name = absl::AsciiStrToLower(name.substr(prefix.size()));
    if (type.IsReservedName(field_name)) continue;  // a field of before, as in a file
    const FieldDescriptor* const field = type.FindFieldByName(field_name);
    if (field != nullptr && name == VariableOf(prefix, *field)) {
      const bool is_text = field->type() == FieldDescriptor::TYPE_STRING && !field->is_repeated();
      overrides.push_back({.path = field->name(),
                           .value = is_text ? Quoted(value) : std::string(value),
                           .shown = absl::StrCat(name, "=", value)});
    } else if (!IsOfKubernetesService(absl::string_view(name).substr(prefix.size()))) {
      std::vector<std::string> known;
      for (int i = 0; i < type.field_count(); ++i) known.push_back(VariableOf(prefix, *type.field(i)));
      const std::string nearest = NearestName(absl::AsciiStrToUpper(name), known);
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": is set in the environment, and is of no field",
                       nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
    }
  }
  // One order, whatever that of the environment.
  std::sort(overrides.begin(), overrides.end(),
            [](const YamlOverride& a, const YamlOverride& b) { return a.path < b.path; });
  return overrides;
}

}  // namespace

absl::Status ReadDaemonConfig(const std::string& file, const std::string& prefix,
                              const char* const* environment, google::protobuf::Message* config) {
  std::string text;
  if (!file.empty()) {
    ASSIGN_OR_RETURN(text, ReadDocumentFile(file));
  }
  ASSIGN_OR_RETURN(const std::vector<YamlOverride> overrides,
                   OverridesOf(prefix, environment, *config->GetDescriptor()));
  return ReadYaml(text, file, config, overrides);
}

std::vector<std::string> ChangedFields(const google::protobuf::Message& before,
                                       const google::protobuf::Message& after) {
  std::vector<std::string> changed;
  const google::protobuf::Descriptor& type = *before.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    google::protobuf::util::MessageDifferencer differencer;
    // Either with this field alone.
    const std::unique_ptr<google::protobuf::Message> a(before.New()), b(after.New());
    for (const auto& [from, to] : {std::pair(&before, a.get()), std::pair(&after, b.get())}) {
      to->CopyFrom(*from);
      for (int other = 0; other < type.field_count(); ++other)
        if (other != i) to->GetReflection()->ClearField(to, type.field(other));
    }
    if (!differencer.Compare(*a, *b)) changed.push_back(type.field(i)->name());
  }
  return changed;
}

}  // namespace medley
