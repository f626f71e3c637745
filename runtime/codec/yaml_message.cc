#include "runtime/codec/yaml_message.h"

#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "runtime/base/status_macros.h"
#include "runtime/codec/nearest_name.h"
#include "runtime/codec/validate.h"
#include "runtime/codec/yaml_scalar.h"
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

class Reader {
 public:
  explicit Reader(const std::string& file_name) : file_name_(file_name) {}

  absl::Status ReadMessage(const YAML::Node& node, const std::string& path, Message& out);

  // InvalidArgument, at the line of `path` or, if it is not in the document, of what it would be part of.
  absl::Status ErrorAt(std::string path, const std::string& problem) const {
    const std::string shown = path;
    auto line = lines_.find(path);
    while (line == lines_.end() && !path.empty()) {
      const size_t cut = path.find_last_of(".[");
      path.resize(cut == std::string::npos ? 0 : cut);
      line = lines_.find(path);
    }
    return Error(line == lines_.end() ? 1 : line->second, shown, problem);
  }

 private:
  absl::Status Error(int line, const std::string& path, const std::string& problem) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_name_, ":", line, ": ", path, path.empty() ? "" : ": ", problem));
  }

  absl::Status ReadField(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                         Message& out);
  absl::Status ReadMap(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                       Message& out);
  absl::Status ReadScalar(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                          Message& out);
  absl::Status UnknownKey(const std::string& key, int line, const std::string& path,
                          const Message& message) const;

  // Remembers the line of `path` and counts it. The key's, where there is one: a block's own begins a line
  // later.
  absl::Status Enter(const std::string& path, const YAML::Mark& mark) {
    if (!mark.is_null()) lines_[path] = mark.line + 1;
    if (++values_ <= kMaximumValues) return absl::OkStatus();
    return ErrorAt(path, absl::StrCat("more than ", kMaximumValues, " values"));
  }

  const std::string file_name_;
  std::map<std::string, int> lines_;
  int values_ = 0;
};

absl::Status Reader::UnknownKey(const std::string& key, int line, const std::string& path,
                                const Message& message) const {
  std::vector<std::string> names;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    names.push_back(message.GetDescriptor()->field(i)->name());
  }
  const std::string nearest = NearestName(key, names);
  const std::string advice = nearest.empty() ? absl::StrCat("known are ", absl::StrJoin(names, ", "))
                                             : absl::StrCat("did you mean \"", nearest, "\"?");
  return Error(line, Join(path, absl::CHexEscape(key)), absl::StrCat("unknown key; ", advice));
}

absl::Status Reader::ReadMessage(const YAML::Node& node, const std::string& path, Message& out) {
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsMap()) return ErrorAt(path, "must have keys of its own (\"key: value\" lines)");
  std::map<std::string, int> seen;
  for (const auto& entry : node) {
    const int line = entry.first.Mark().line + 1;
    if (!entry.first.IsScalar()) return Error(line, path, "a key must be a word");
    const std::string& key = entry.first.Scalar();
    const FieldDescriptor* field = out.GetDescriptor()->FindFieldByName(key);
    if (field == nullptr) return UnknownKey(key, line, path, out);
    const auto [first, is_new] = seen.emplace(key, line);
    if (!is_new)
      return Error(line, Join(path, key), absl::StrCat("given twice, first on line ", first->second));
    const google::protobuf::OneofDescriptor* oneof = field->real_containing_oneof();
    if (oneof != nullptr && out.GetReflection()->HasOneof(out, oneof)) {
      const FieldDescriptor* other = out.GetReflection()->GetOneofFieldDescriptor(out, oneof);
      return Error(line, Join(path, key), absl::StrCat("may not stand beside ", other->name()));
    }
    RETURN_IF_ERROR(Enter(Join(path, key), entry.first.Mark()));
    RETURN_IF_ERROR(ReadField(entry.second, Join(path, key), *field, out));
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadField(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                               Message& out) {
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

absl::Status Reader::ReadMap(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                             Message& out) {
  if (node.IsNull()) return absl::OkStatus();
  if (!node.IsMap()) return ErrorAt(path, "must have keys of its own (\"key: value\" lines)");
  const FieldDescriptor& value = *field.message_type()->map_value();
  std::map<std::string, int> seen;
  for (const auto& entry : node) {
    const int line = entry.first.Mark().line + 1;
    if (!entry.first.IsScalar()) return Error(line, path, "a key must be a word");
    const std::string entry_path = absl::StrCat(path, "[", entry.first.Scalar(), "]");
    const auto [first, is_new] = seen.emplace(entry.first.Scalar(), line);
    if (!is_new) return Error(line, entry_path, absl::StrCat("given twice, first on line ", first->second));
    RETURN_IF_ERROR(Enter(entry_path, entry.first.Mark()));
    Message& message = *out.GetReflection()->AddMessage(&out, &field);
    RETURN_IF_ERROR(ReadScalar(entry.first, entry_path, *field.message_type()->map_key(), message));
    RETURN_IF_ERROR(ReadField(entry.second, entry_path, value, message));
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadScalar(const YAML::Node& node, const std::string& path, const FieldDescriptor& field,
                                Message& out) {
  if (node.IsNull()) return ErrorAt(path, "has no value; give one or leave the key out");
  if (!node.IsScalar()) return ErrorAt(path, "must be one value, not a list or keys of its own");
  // yaml-cpp tags plain scalars "?" and quoted ones "!".
  const bool plain = node.Tag() == "?" || node.Tag().empty();
  const YamlScalar scalar{node.Scalar(), plain ? YamlScalar::Style::kPlain : YamlScalar::Style::kQuoted};
  const std::optional<std::string> problem = StoreScalar(scalar, field, out);
  return problem ? ErrorAt(path, *problem) : absl::OkStatus();
}

// Whether anything comes, without keeping it.
class Anything final : public YAML::EventHandler {
 public:
  bool came() const { return came_; }
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { came_ = true; }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override { came_ = true; }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
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

absl::Status ReadYaml(const std::string& text, const std::string& file_name, Message* out) {
  out->Clear();
  Reader reader(file_name);
  try {
    const YAML::Node document = YAML::Load(text);
    if (HasSecondDocument(text)) return reader.ErrorAt("", "has more than one document (\"---\")");
    if (!document.IsNull()) RETURN_IF_ERROR(reader.ReadMessage(document, "", *out));
  } catch (const YAML::Exception& error) {
    const std::string line = error.mark.is_null() ? "" : absl::StrCat(error.mark.line + 1, ": ");
    return absl::InvalidArgumentError(absl::StrCat(file_name, ":", line, "no YAML: ", error.msg));
  }
  const std::optional<Violation> violation = FindViolation(*out);
  return violation ? reader.ErrorAt(violation->path, violation->problem) : absl::OkStatus();
}

absl::Status ReadYamlFile(const std::string& path, Message* out) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  // An empty file sets failbit on `text`, a folder can be opened but not read.
  if (!file.is_open() || file.bad() || (text.fail() && file.peek() != std::ifstream::traits_type::eof())) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  return ReadYaml(text.str(), path, out);
}

}  // namespace medley
