#include "runtime/engine/align/call_file.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using nlohmann::json;

constexpr IntegerRange kCount{0, std::numeric_limits<int64_t>::max()};

// The scalar fields as members of a JSON object, under their names.
struct FieldWriter : IgnoringVisitor {
  json object = json::object();

  void Size(const char* name, int64_t& value) { object[name] = value; }
  void Step(const char* name, int64_t& value) { object[name] = value; }
  void Index(const char* name, int64_t& value) { object[name] = value; }
  void Number(const char* name, float& value) { object[name] = static_cast<double>(value); }
  template <typename Enum, size_t N>
  void Choice(const char* name, Enum& value, const char* const (&names)[N]) {
    object[name] = names[static_cast<size_t>(value)];
  }
  void Ranges(const char* name, absl::Span<const AdamWRange>& ranges) {
    json list = json::array();
    for (const AdamWRange& range : ranges) {
      list.push_back({{"first", range.first},
                      {"elements", range.elements},
                      {"weight_decay", static_cast<double>(range.weight_decay)}});
    }
    object[name] = std::move(list);
  }
};

// The other way; keeps the first error. An operand is there if `tensors` has one of its name.
struct FieldReader {
  const json& object;
  const std::vector<CapturedTensor>& tensors;
  std::vector<AdamWRange>& ranges;
  size_t members = 0;
  absl::Status status;

  template <typename T>
  bool Take(const absl::StatusOr<T>& value, T& to) {
    ++members;
    if (value.ok()) {
      to = *value;
      return true;
    }
    status.Update(value.status());
    return false;
  }
  template <typename Elements>
  void Operand(const char* name, Slice& slice, const Elements&, const OperandUse&) {
    for (const CapturedTensor& tensor : tensors) {
      if (tensor.name == name) slice = PlacelessSlice(tensor.elements, tensor.dtype);
    }
  }
  void Size(const char* name, int64_t& value) { Take(IntegerMember(object, name, kCount), value); }
  void Step(const char* name, int64_t& value) { Take(IntegerMember(object, name, kCount), value); }
  void Index(const char* name, int64_t& value) { Take(IntegerMember(object, name, kCount), value); }
  void Number(const char* name, float& value) {
    double wide = 0;
    // Values out of f32's range become infinite, which CheckCall refuses.
    if (Take(NumberMember(object, name), wide)) value = static_cast<float>(wide);
  }
  template <typename Enum, size_t N>
  void Choice(const char* name, Enum& value, const char* const (&names)[N]) {
    std::string text;
    if (!Take(StringMember(object, name), text)) return;
    for (size_t i = 0; i < N; ++i) {
      if (text == names[i]) {
        value = static_cast<Enum>(i);
        return;
      }
    }
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" is \"", text, "\", must be one of: ", absl::StrJoin(names, ", "))));
  }
  void Ranges(const char* name, absl::Span<const AdamWRange>& view) {
    const json* list = nullptr;
    if (!Take(Member(object, name), list)) return;
    if (!list->is_array()) return status.Update(absl::InvalidArgumentError("\"ranges\" is no list"));
    for (const json& entry : *list) status.Update(AddRange(entry));
    view = ranges;
  }
  absl::Status AddRange(const json& entry) {
    AdamWRange range;
    ASSIGN_OR_RETURN(range.first, IntegerMember(entry, "first", kCount));
    ASSIGN_OR_RETURN(range.elements, IntegerMember(entry, "elements", kCount));
    ASSIGN_OR_RETURN(const double weight_decay, NumberMember(entry, "weight_decay"));
    range.weight_decay = static_cast<float>(weight_decay);
    ranges.push_back(range);
    return absl::OkStatus();
  }
};

// Holds the arguments of `op`, all fields as they are by default.
absl::StatusOr<AnyArgs> ArgsOf(const std::string& op) {
#define MEDLEY_NAMED_ARGS(name) \
  if (op == #name) return AnyArgs(name##Args{});
  MEDLEY_EACH_OP(MEDLEY_NAMED_ARGS)
#undef MEDLEY_NAMED_ARGS
  return absl::InvalidArgumentError(absl::StrCat("\"op\" is \"", op, "\", which is none"));
}

absl::StatusOr<int> PlaceAmong(const json& entry, const std::string& member,
                               absl::Span<const char* const> names) {
  ASSIGN_OR_RETURN(const std::string text, StringMember(entry, member));
  for (size_t i = 0; i < names.size(); ++i) {
    if (text == names[i]) return static_cast<int>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", member, "\" is \"", text, "\", must be one of: ", absl::StrJoin(names, ", ")));
}

constexpr const char* kAccessNames[] = {"read", "write", "update"};
constexpr int64_t kMostTensors = 16;

absl::StatusOr<CapturedTensor> DecodeTensor(const json& entry, absl::Span<const std::byte> body) {
  CapturedTensor tensor;
  ASSIGN_OR_RETURN(tensor.name, StringMember(entry, "name"));
  ASSIGN_OR_RETURN(const int dtype, PlaceAmong(entry, "dtype", kDtypeNames));
  tensor.dtype = static_cast<Dtype>(dtype);
  ASSIGN_OR_RETURN(const int access, PlaceAmong(entry, "access", kAccessNames));
  tensor.access = static_cast<Access>(access);
  ASSIGN_OR_RETURN(tensor.elements, IntegerMember(entry, "elements", kCount));
  ASSIGN_OR_RETURN(const int64_t same_as, IntegerMember(entry, "same_as", {-1, kMostTensors}));
  tensor.same_as = static_cast<int>(same_as);
  tensor.before.assign(body.begin(), body.end());
  return tensor;
}

absl::StatusOr<std::vector<CapturedTensor>> DecodeTensors(const DecodedParts& parts) {
  const json& list = parts.header["tensors"];
  if (static_cast<int64_t>(list.size()) > kMostTensors) {
    return absl::InvalidArgumentError(absl::StrCat(list.size(), " tensors, at most ", kMostTensors));
  }
  std::vector<CapturedTensor> tensors;
  for (size_t i = 0; i < list.size(); ++i) {
    absl::StatusOr<CapturedTensor> tensor = DecodeTensor(list[i], parts.bodies[i]);
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("tensors[", i, "]"));
    tensors.push_back(*std::move(tensor));
  }
  return tensors;
}

}  // namespace

FileParts EncodeCall(const CapturedCall& call) {
  AnyArgs args = call.args;
  if (auto* adamw = std::get_if<AdamWArgs>(&args)) adamw->ranges = call.ranges;
  FieldWriter fields;
  VisitAny(args, fields);
  json tensors = json::array();
  std::vector<absl::Span<const std::byte>> bodies;
  for (const CapturedTensor& tensor : call.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", kDtypeNames[static_cast<int>(tensor.dtype)]},
                       {"access", kAccessNames[static_cast<int>(tensor.access)]},
                       {"elements", tensor.elements},
                       {"same_as", tensor.same_as}});
    bodies.push_back(tensor.before);
  }
  return EncodeParts({{"op", NameOf(call.kind())},
                      {"index", call.place.index},
                      {"step", call.place.step},
                      {"position", call.place.position},
                      {"arguments", std::move(fields.object)},
                      {"tensors", std::move(tensors)}},
                     std::move(bodies));
}

absl::StatusOr<CapturedCall> DecodeCall(absl::Span<const std::byte> file) {
  ASSIGN_OR_RETURN(const DecodedParts parts, DecodeParts(file));
  CapturedCall call;
  ASSIGN_OR_RETURN(const std::string op, StringMember(parts.header, "op"));
  ASSIGN_OR_RETURN(call.args, ArgsOf(op));
  ASSIGN_OR_RETURN(call.place.index, IntegerMember(parts.header, "index", kCount));
  ASSIGN_OR_RETURN(call.place.step, IntegerMember(parts.header, "step", kCount));
  ASSIGN_OR_RETURN(call.place.position, StringMember(parts.header, "position"));
  ASSIGN_OR_RETURN(call.tensors, DecodeTensors(parts));
  ASSIGN_OR_RETURN(const json* arguments, Member(parts.header, "arguments"));
  FieldReader fields{*arguments, call.tensors, call.ranges};
  VisitAny(call.args, fields);
  RETURN_IF_ERROR(Annotate(fields.status, "arguments"));
  if (arguments->size() != fields.members) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"arguments\" has ", arguments->size(), " members, must have ", fields.members));
  }
  RETURN_IF_ERROR(CheckCall(call));
  return call;
}

FileParts EncodeResult(const CallResult& result) {
  json outputs = json::array();
  std::vector<absl::Span<const std::byte>> bodies;
  for (const CallResult::Output& output : result.outputs) {
    outputs.push_back({{"name", output.name}, {"dtype", kDtypeNames[static_cast<int>(output.dtype)]}});
    bodies.push_back(output.contents);
  }
  return EncodeParts({{"index", result.index},
                      {"code", static_cast<int>(result.status.code())},
                      {"message", std::string(result.status.message())},
                      {"tensors", std::move(outputs)}},
                     std::move(bodies));
}

absl::StatusOr<CallResult> DecodeResult(absl::Span<const std::byte> file) {
  ASSIGN_OR_RETURN(const DecodedParts parts, DecodeParts(file));
  CallResult result;
  ASSIGN_OR_RETURN(result.index, IntegerMember(parts.header, "index", kCount));
  ASSIGN_OR_RETURN(const int64_t code, IntegerMember(parts.header, "code", {0, 16}));
  ASSIGN_OR_RETURN(const std::string message, StringMember(parts.header, "message"));
  result.status = absl::Status(static_cast<absl::StatusCode>(code), message);
  const json& list = parts.header["tensors"];
  if (static_cast<int64_t>(list.size()) > kMostTensors) {
    return absl::InvalidArgumentError(absl::StrCat(list.size(), " outputs, at most ", kMostTensors));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    CallResult::Output& output = result.outputs.emplace_back();
    ASSIGN_OR_RETURN(output.name, StringMember(list[i], "name"));
    ASSIGN_OR_RETURN(const int dtype, PlaceAmong(list[i], "dtype", kDtypeNames));
    output.dtype = static_cast<Dtype>(dtype);
    if (parts.bodies[i].size() % SizeOf(output.dtype).value != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(output.name, " has ", parts.bodies[i].size(), " B, no whole number of elements"));
    }
    output.contents.assign(parts.bodies[i].begin(), parts.bodies[i].end());
  }
  return result;
}

}  // namespace medley
