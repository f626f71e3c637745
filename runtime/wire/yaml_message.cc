#include "runtime/wire/yaml_message.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/valid_utf8.h"
#include "runtime/wire/nearest_name.h"
#include "runtime/wire/validate.h"
#include "runtime/wire/yaml_scalar.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace medley {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Aliases let a short document stand for an endless one.
constexpr int kMaximumValues = 2'000'000;

std::string Join(const std::string& path, const std::string& name) {
  return path.empty() ? name : absl::StrCat(path, ".", name);
}

// Whether `path` is `whole` or something in it.
bool IsWithin(const std::string& path, const std::string& whole) {
  if (!absl::StartsWith(path, whole)) return false;
  return path.size() == whole.size() || path[whole.size()] == '.' || path[whole.size()] == '[';
}

// The path of what `path` is a part of; of a field of the document itself, the document's, which is empty.
std::string ParentOf(const std::string& path) {
  const size_t cut = path.find_last_of(".[");
  return path.substr(0, cut == std::string::npos ? 0 : cut);
}

// "optimizer", "devices" and 0: a key, and what is in brackets after it.
struct PathPart {
  std::string key;  // empty: an element
  size_t index = 0;
};

std::optional<std::vector<PathPart>> SplitPath(const std::string& path) {
  std::vector<PathPart> parts;
  for (size_t at = 0; at < path.size();) {
    if (path[at] == '[') {
      const size_t end = path.find(']', at);
      PathPart part;
      // More than a list may have is not worth trying.
      if (parts.empty() || end == std::string::npos ||
          !absl::SimpleAtoi(path.substr(at + 1, end - at - 1), &part.index) || part.index > 4096) {
        return std::nullopt;
      }
      parts.push_back(part);
      at = end + 1;
    } else {
      if (!parts.empty() && path[at++] != '.') return std::nullopt;
      const size_t begin = at;
      while (at < path.size() && (absl::ascii_isalnum(path[at]) || path[at] == '_')) ++at;
      if (at == begin) return std::nullopt;
      parts.push_back({.key = path.substr(begin, at - begin)});
    }
  }
  if (parts.empty()) return std::nullopt;
  return parts;
}

}  // namespace

class YamlReader {
 public:
  YamlReader(const std::string& file_name, const std::vector<YamlOverride>& overrides, YamlPlaces& places)
      : file_name_(file_name), overrides_(overrides), places_(places) {
    places_.places_.clear();
  }

  // Puts the overrides into `document`.
  absl::Status Override(YAML::Node& document) const;

  absl::Status ReadMessage(const YAML::Node& node, const std::string& path, Message& out);

  // InvalidArgument, at the place of `path` or, if it is not in the document, of what it would be part of.
  absl::Status ErrorAt(const std::string& path, const std::string& problem) const {
    std::string known = path;
    while (!known.empty() && places_.places_.count(known) == 0) known = ParentOf(known);
    const auto place = places_.places_.find(known);
    return Error(place == places_.places_.end() ? Line(1) : place->second, path, problem);
  }

  // The error of what breaks a rule of its field: a number that is not there was not given as 0.
  absl::Status ErrorAt(const Violation& violation) const {
    if (places_.places_.count(violation.path) > 0) return ErrorAt(violation.path, violation.problem);
    absl::string_view problem = violation.problem;
    if (absl::ConsumePrefix(&problem, "0 is not ")) {
      return ErrorAt(violation.path, absl::StrCat("is required, but missing; must be ", problem));
    }
    const bool empty = problem == "is required, but empty";
    return ErrorAt(violation.path, empty ? "is required, but missing" : violation.problem);
  }

 private:
  std::string Line(int line) const { return absl::StrCat(file_name_, ":", line); }

  // The override that gave what stands at `path`, as it is shown; empty: the document did.
  std::string OverrideOf(const std::string& path) const {
    std::string shown;
    for (const YamlOverride& given : overrides_) {
      if (IsWithin(path, given.path)) shown = given.shown;
    }
    return shown;
  }

  std::string PlaceOf(const std::string& path, int line) const {
    const std::string shown = OverrideOf(path);
    return shown.empty() ? Line(line) : shown;
  }

  absl::Status Error(const std::string& place, const std::string& path, const std::string& problem) const {
    return absl::InvalidArgumentError(absl::StrCat(place, ": ", path, path.empty() ? "" : ": ", problem));
  }

  absl::Status ReadField(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                         Message& out);
  absl::Status ReadMap(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                       Message& out);
  absl::Status ReadScalar(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                          Message& out);
  absl::Status UnknownKey(const std::string& key, int line, const std::string& path,
                          const Message& message) const;
  absl::Status OverrideOne(YAML::Node document, const YamlOverride& given) const;

  // Remembers where `path` stands and counts it. The key's line, where there is one: a block's own begins a
  // line later.
  absl::Status Enter(const std::string& path, const YAML::Mark& mark) {
    // What an override brought has lines of its own, or none.
    const std::string shown = OverrideOf(path);
    if (!shown.empty()) {
      places_.places_[path] = shown;
    } else if (!mark.is_null()) {
      places_.places_[path] = Line(mark.line + 1);
    }
    if (++values_ <= kMaximumValues) return absl::OkStatus();
    return ErrorAt(path, absl::StrCat("more than ", kMaximumValues, " values"));
  }

  const std::string file_name_;
  const std::vector<YamlOverride>& overrides_;
  YamlPlaces& places_;
  int values_ = 0;
};

absl::Status YamlReader::OverrideOne(YAML::Node document, const YamlOverride& given) const {
  const std::optional<std::vector<PathPart>> parts = SplitPath(given.path);
  if (!parts)
    return Error(given.shown, given.path,
                 "is no field; write it as in batch.sequences or constraints.devices[0]");
  YAML::Node value;
  try {
    value = YAML::Load(given.value);
  } catch (const YAML::Exception& error) {
    return Error(given.shown, given.path, absl::StrCat("not valid YAML: ", error.msg));
  }
  // (Assigning to a node would change what it refers to; Reset makes it refer to something else.)
  YAML::Node node;
  node.reset(document);
  std::string path;
  for (const PathPart& part : *parts) {
    if (!part.key.empty()) {
      if (node.IsDefined() && !node.IsMap() && !node.IsNull()) {
        return Error(given.shown, given.path, absl::StrCat(path, " has no keys in the file"));
      }
      path = Join(path, part.key);
      node.reset(node[part.key]);
    } else {
      const size_t size = node.IsDefined() && node.IsSequence() ? node.size() : 0;
      if (part.index > size || (node.IsDefined() && !node.IsSequence() && !node.IsNull())) {
        return Error(given.shown, given.path, absl::StrCat(path, " is a list of ", size, " in the file"));
      }
      absl::StrAppend(&path, "[", part.index, "]");
      if (part.index == size) node.push_back(YAML::Node());
      node.reset(node[part.index]);
    }
  }
  node = value;
  return absl::OkStatus();
}

absl::Status YamlReader::Override(YAML::Node& document) const {
  if (overrides_.empty()) return absl::OkStatus();
  if (document.IsNull()) document = YAML::Node(YAML::NodeType::Map);
  if (!document.IsMap()) return absl::OkStatus();  // ReadMessage says what is wrong with it
  for (const YamlOverride& given : overrides_) RETURN_IF_ERROR(OverrideOne(document, given));
  return absl::OkStatus();
}

absl::Status YamlReader::UnknownKey(const std::string& key, int line, const std::string& path,
                                    const Message& message) const {
  std::vector<std::string> names;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    names.push_back(message.GetDescriptor()->field(i)->name());
  }
  const std::string nearest = NearestName(key, names);
  const std::string advice = nearest.empty() ? absl::StrCat("known are ", absl::StrJoin(names, ", "))
                                             : absl::StrCat("did you mean \"", nearest, "\"?");
  return Error(PlaceOf(Join(path, key), line), Join(path, absl::CHexEscape(key)),
               absl::StrCat("unknown key; ", advice));
}

absl::Status YamlReader::ReadMessage(const YAML::Node& node, const std::string& path, Message& out) {
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsMap()) return ErrorAt(path, "must have keys of its own (\"key: value\" lines)");
  std::map<std::string, int> seen;
  for (const auto& entry : node) {
    const int line = entry.first.Mark().line + 1;
    if (!entry.first.IsScalar()) return Error(PlaceOf(path, line), path, "a key must be a word");
    const std::string& key = entry.first.Scalar();
    const FieldDescriptor* field = out.GetDescriptor()->FindFieldByName(key);
    // A field of before, without effect by now: files that were written then go on being read.
    if (field == nullptr && out.GetDescriptor()->IsReservedName(key)) continue;
    if (field == nullptr) return UnknownKey(key, line, path, out);
    const auto [first, is_new] = seen.emplace(key, line);
    if (!is_new)
      return Error(Line(line), Join(path, key), absl::StrCat("given twice, first on line ", first->second));
    const google::protobuf::OneofDescriptor* oneof = field->real_containing_oneof();
    if (oneof != nullptr && out.GetReflection()->HasOneof(out, oneof)) {
      const FieldDescriptor* other = out.GetReflection()->GetOneofFieldDescriptor(out, oneof);
      return Error(PlaceOf(Join(path, key), line), Join(path, key),
                   absl::StrCat("may not stand beside ", other->name()));
    }
    RETURN_IF_ERROR(Enter(Join(path, key), entry.first.Mark()));
    RETURN_IF_ERROR(ReadField(entry.second, Join(path, key), *field, out));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadField(const YAML::Node& node, const std::string& path,
                                   const FieldDescriptor& field, Message& out) {
  const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (field.is_map()) return ReadMap(node, path, field, out);
  if (!field.is_repeated()) {
    if (!is_message) return ReadScalar(node, path, field, out);
    return ReadMessage(node, path, *out.GetReflection()->MutableMessage(&out, &field));
  }
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsSequence()) return ErrorAt(path, "must be a list (\"[a, b]\" or \"- a\" lines)");
  int index = 0;
  for (const YAML::Node& element : node) {
    const std::string element_path = absl::StrCat(path, "[", index++, "]");
    RETURN_IF_ERROR(Enter(element_path, element.Mark()));
    if (is_message) {
      RETURN_IF_ERROR(ReadMessage(element, element_path, *out.GetReflection()->AddMessage(&out, &field)));
    } else {
      RETURN_IF_ERROR(ReadScalar(element, element_path, field, out));
    }
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadMap(const YAML::Node& node, const std::string& path,
                                 const FieldDescriptor& field, Message& out) {
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsMap()) return ErrorAt(path, "must have keys of its own (\"key: value\" lines)");
  const FieldDescriptor& value = *field.message_type()->map_value();
  std::map<std::string, int> seen;
  for (const auto& entry : node) {
    const int line = entry.first.Mark().line + 1;
    if (!entry.first.IsScalar()) return Error(PlaceOf(path, line), path, "a key must be a word");
    const std::string entry_path = absl::StrCat(path, "[", entry.first.Scalar(), "]");
    const auto [first, is_new] = seen.emplace(entry.first.Scalar(), line);
    if (!is_new)
      return Error(Line(line), entry_path, absl::StrCat("given twice, first on line ", first->second));
    RETURN_IF_ERROR(Enter(entry_path, entry.first.Mark()));
    Message& message = *out.GetReflection()->AddMessage(&out, &field);
    RETURN_IF_ERROR(ReadScalar(entry.first, entry_path, *field.message_type()->map_key(), message));
    RETURN_IF_ERROR(ReadField(entry.second, entry_path, value, message));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadScalar(const YAML::Node& node, const std::string& path,
                                    const FieldDescriptor& field, Message& out) {
  if (node.IsNull()) return ErrorAt(path, "has no value; give one or leave the key out");
  if (!node.IsScalar()) return ErrorAt(path, "must be one value, not a list or keys of its own");
  // yaml-cpp tags plain scalars "?" and quoted ones "!".
  const bool plain = node.Tag() == "?" || node.Tag().empty();
  const YamlScalar scalar{node.Scalar(), plain ? YamlScalar::Style::kPlain : YamlScalar::Style::kQuoted};
  const std::optional<std::string> problem = StoreScalar(scalar, field, out);
  return problem ? ErrorAt(path, *problem) : absl::OkStatus();
}

namespace {

// Whether anything comes, without keeping it.
class Anything final : public YAML::EventHandler {
 public:
  bool came() const { return came_; }
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { came_ = true; }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {
    came_ = true;
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    came_ = true;
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    came_ = true;
  }
  void OnMapEnd() override {}

 private:
  bool came_ = false;
};

// (YAML::LoadAll does not come to an end on some texts, since a document may leave tokens behind for ever.)
bool HasSecondDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Anything first, second;
  return parser.HandleNextDocument(first) && parser.HandleNextDocument(second) && second.came();
}

}  // namespace

absl::StatusOr<YamlOverride> ParseYamlOverride(const std::string& option, const std::string& text) {
  const size_t equals = text.find('=');
  YamlOverride given{
      .path = text.substr(0, equals),
      .shown =
          absl::StrCat(option, " ", IsUtf8(text) ? absl::Utf8SafeCHexEscape(text) : absl::CHexEscape(text))};
  if (equals == std::string::npos || !SplitPath(given.path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(given.shown, ": must be FIELD=VALUE, as in optimizer.learning_rate=1e-3"));
  }
  given.value = text.substr(equals + 1);
  return given;
}

absl::Status YamlPlaces::Locate(const absl::Status& status) const {
  if (!absl::IsInvalidArgument(status)) return status;
  const std::string message(status.message());
  const std::string path = message.substr(0, message.find(": "));
  if (path.size() == message.size() || !SplitPath(path)) return status;
  for (std::string known = path; !known.empty(); known = ParentOf(known)) {
    const auto place = places_.find(known);
    if (place != places_.end()) return absl::InvalidArgumentError(absl::StrCat(place->second, ": ", message));
  }
  return status;
}

absl::Status ReadYaml(const std::string& text, const std::string& file_name, Message* out,
                      const std::vector<YamlOverride>& overrides, YamlPlaces* places) {
  out->Clear();
  YamlPlaces own;
  YamlReader reader(file_name, overrides, places == nullptr ? own : *places);
  try {
    YAML::Node document = YAML::Load(text);
    if (HasSecondDocument(text)) return reader.ErrorAt("", "has more than one document (\"---\")");
    RETURN_IF_ERROR(reader.Override(document));
    if (!document.IsNull()) RETURN_IF_ERROR(reader.ReadMessage(document, "", *out));
  } catch (const YAML::Exception& error) {
    const std::string line = error.mark.is_null() ? "" : absl::StrCat(error.mark.line + 1, ": ");
    return absl::InvalidArgumentError(absl::StrCat(file_name, ":", line.empty() ? " " : line,
                                                   "not valid YAML (indentation?): ", error.msg));
  }
  const std::optional<Violation> violation = FindViolation(*out);
  return violation ? reader.ErrorAt(*violation) : absl::OkStatus();
}

absl::StatusOr<std::string> ReadDocumentFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::FailedPreconditionError(absl::StrCat("cannot read ", path, ": it is a folder, not a file"));
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  // An empty file sets failbit on `text`.
  if (!file.is_open() || file.bad() || (text.fail() && file.peek() != std::ifstream::traits_type::eof())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  return text.str();
}

absl::Status ReadYamlFile(const std::string& path, Message* out) {
  ASSIGN_OR_RETURN(const std::string text, ReadDocumentFile(path));
  return ReadYaml(text, path, out);
}

}  // namespace medley
