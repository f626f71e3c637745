#include "runtime/engine/align/captured_call.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int64_t kLargestProduct = int64_t{1} << 48;

// Stands for memory that is elsewhere.
class NoMemory final : public Buffer {
 public:
  Bytes size() const override { return {0}; }
  std::byte* host_address() override { return nullptr; }
};

struct ShapeWriter : IgnoringVisitor {
  std::string text;

  void Add(const std::string& word) { absl::StrAppend(&text, text.empty() ? "" : " ", word); }
  template <typename Elements>
  void Operand(const char* name, Slice& slice, const Elements&, const OperandUse& use) {
    if (use.optional && !slice.empty()) Add(absl::StrCat("+", name));
    if (use.typed && slice.dtype != Dtype::kF32)
      Add(absl::StrCat(name, "=", std::string(NameOf(slice.dtype))));
  }
  void Size(const char* name, int64_t& value) { Add(absl::StrCat(name, "=", value)); }
  void Index(const char* name, int64_t& value) {
    if (value > 0) Add(absl::StrCat(name, "=", value));
  }
  template <typename Enum, size_t N>
  void Choice(const char* name, Enum& value, const char* const (&names)[N]) {
    if constexpr (std::is_same_v<Enum, Precision>) return;  // the device's, not the call's
    const std::string word = names[static_cast<size_t>(value) % N];
    if (word == "yes") return Add(name);
    if (static_cast<size_t>(value) > 0) Add(word);
  }
  void Ranges(const char* name, absl::Span<const AdamWRange>& ranges) {
    Add(absl::StrCat(name, "=", ranges.size(),
                     " elements=", ranges.empty() ? 0 : ranges.back().first + ranges.back().elements));
  }
};

struct FieldCheck : IgnoringVisitor {
  absl::Status status;
  int64_t product = 1;

  void Refuse(const std::string& what) {
    if (status.ok()) status = absl::InvalidArgumentError(what);
  }
  void Size(const char* name, int64_t& value) {
    if (value < 0) return Refuse(absl::StrCat(name, " is ", value, ", must not be negative"));
    if (value > 0 && (__builtin_mul_overflow(product, value, &product) || product > kLargestProduct)) {
      product = 1;
      Refuse(absl::StrCat(name, " is ", value, ", and the product of the sizes over 2^48"));
    }
  }
  void Step(const char* name, int64_t& value) {
    if (value < 1) Refuse(absl::StrCat(name, " is ", value, ", must be 1 or more"));
  }
  void Index(const char* name, int64_t& value) {
    if (value < 0 || value > kLargestProduct)
      Refuse(absl::StrCat(name, " is ", value, ", must be 0 or more, at most 2^48"));
  }
  void Number(const char* name, float& value) {
    if (!std::isfinite(value)) Refuse(absl::StrCat(name, " is ", value, ", must be finite"));
  }
  template <typename Enum, size_t N>
  void Choice(const char* name, Enum& value, const char* const (&)[N]) {
    if (static_cast<size_t>(value) >= N) Refuse(absl::StrCat(name, " is ", static_cast<int>(value)));
  }
  void Ranges(const char* name, absl::Span<const AdamWRange>& ranges) {
    int64_t end = 0;
    for (const AdamWRange& range : ranges) {
      if (range.first < end || range.elements < 0 || range.elements > kLargestProduct ||
          range.first > kLargestProduct) {
        return Refuse(absl::StrCat(name, ": ", range.elements, " elements from ", range.first,
                                   ", must be ascending, disjoint and below 2^48"));
      }
      if (!std::isfinite(range.weight_decay))
        return Refuse(absl::StrCat(name, ": weight_decay is not finite"));
      end = range.first + range.elements;
    }
  }
};

absl::Status CheckTensor(const CapturedTensor& tensor, const OpSlice& operand) {
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(tensor.name, what));
  };
  if (tensor.name != operand.name) return refuse(absl::StrCat(": the shape asks for ", operand.name));
  if (tensor.access != operand.access) return refuse(": the shape asks for another access");
  if (operand.typed ? !IsActivationType(tensor.dtype) : tensor.dtype != operand.dtype) {
    return refuse(absl::StrCat(" is ", std::string(NameOf(tensor.dtype)), ", must be ",
                               operand.typed ? "f32 or bf16" : std::string(NameOf(operand.dtype))));
  }
  if (tensor.elements < operand.elements || tensor.elements > kLargestProduct) {
    return refuse(absl::StrCat(" has ", tensor.elements, " elements, must have ", operand.elements,
                               " or more, at most 2^48"));
  }
  const bool has_contents = tensor.same_as < 0 && operand.access != Access::kWrite;
  const int64_t bytes = has_contents ? tensor.elements * SizeOf(tensor.dtype).value : 0;
  if (static_cast<int64_t>(tensor.before.size()) != bytes) {
    return refuse(absl::StrCat(" holds ", tensor.before.size(), " B, must hold ", bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckTensors(const OpSlices& operands, const std::vector<CapturedTensor>& tensors) {
  if (operands.size() != tensors.size()) {
    return absl::InvalidArgumentError(absl::StrCat(tensors.size(), " tensors, must be ", operands.size()));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const CapturedTensor& tensor = tensors[i];
    RETURN_IF_ERROR(CheckTensor(tensor, operands[i]));
    if (tensor.same_as < 0) continue;
    const bool earlier = tensor.same_as < static_cast<int>(i);
    if (earlier && tensors[tensor.same_as].same_as < 0 && tensors[tensor.same_as].dtype == tensor.dtype &&
        tensors[tensor.same_as].elements == tensor.elements) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(tensor.name, ": same_as is ", tensor.same_as,
                     ", must be an earlier tensor that lies in a place of its own and is of this size"));
  }
  return absl::OkStatus();
}

// Every id of `ids` in [0, end).
absl::Status CheckIds(const CapturedTensor& ids, int64_t end) {
  for (size_t i = 0; i + sizeof(int32_t) <= ids.before.size(); i += sizeof(int32_t)) {
    int32_t id;
    std::memcpy(&id, ids.before.data() + i, sizeof(id));
    if (id < 0 || id >= end) {
      return absl::InvalidArgumentError(
          absl::StrCat(ids.name, " has id ", id, ", must be in [0, ", end, ")"));
    }
  }
  return absl::OkStatus();
}

// After CheckTensors: the tensors are those of the op. Other ops pass over ids that are not in their table.
absl::Status CheckAllIds(const CapturedCall& call) {
  const auto* args = std::get_if<HeadLossArgs>(&call.args);
  if (args == nullptr) return absl::OkStatus();
  const auto targets = std::find_if(call.tensors.begin(), call.tensors.end(),
                                    [](const CapturedTensor& tensor) { return tensor.name == "targets"; });
  return CheckIds(*targets, args->vocabulary);
}

// Applies `change` to the field `precision`, if the op has one.
template <typename Change>
bool WithPrecision(AnyArgs& args, Change change) {
  return std::visit(
      [&](auto& some) {
        if constexpr (requires { some.precision; }) {
          change(some.precision);
          return true;
        } else {
          return false;
        }
      },
      args);
}

}  // namespace

Slice PlacelessSlice(int64_t elements, Dtype dtype) {
  static NoMemory& nowhere = *new NoMemory;
  return {.buffer = &nowhere, .elements = elements, .dtype = dtype};
}

OpSlices Operands(CapturedCall& call) {
  if (auto* adamw = std::get_if<AdamWArgs>(&call.args)) adamw->ranges = call.ranges;
  return std::visit(
      [](auto& args) -> OpSlices {
        if constexpr (std::is_same_v<std::decay_t<decltype(args)>, std::monostate>) {
          return {};
        } else {
          return SlicesOf(args);
        }
      },
      call.args);
}

std::string ShapeOf(const CapturedCall& call) {
  AnyArgs args = call.args;
  if (auto* adamw = std::get_if<AdamWArgs>(&args)) adamw->ranges = call.ranges;
  ShapeWriter writer;
  VisitAny(args, writer);
  return writer.text;
}

bool HasPrecision(const CapturedCall& call) {
  AnyArgs args = call.args;
  return WithPrecision(args, [](Precision&) {});
}

void SetPrecision(CapturedCall& call, Precision precision) {
  WithPrecision(call.args, [&](Precision& field) { field = precision; });
}

Bytes CapturedBytes(const CapturedCall& call) {
  Bytes bytes;
  for (const CapturedTensor& tensor : call.tensors) bytes += {static_cast<int64_t>(tensor.before.size())};
  return bytes;
}

absl::Status CheckCall(const CapturedCall& call) {
  if (call.args.index() == 0) return absl::InvalidArgumentError("no op");
  if (call.place.index < 0 || call.place.step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("index ", call.place.index, ", step ", call.place.step, ": must not be negative"));
  }
  CapturedCall fields_alone{.place = call.place, .args = call.args, .ranges = call.ranges};
  if (auto* adamw = std::get_if<AdamWArgs>(&fields_alone.args)) adamw->ranges = fields_alone.ranges;
  FieldCheck fields;
  VisitAny(fields_alone.args, fields);
  RETURN_IF_ERROR(fields.status);
  RETURN_IF_ERROR(CheckTensors(Operands(fields_alone), call.tensors));
  return CheckAllIds(call);
}

}  // namespace medley
