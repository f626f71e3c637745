#include "kernels/emulated/emulation_profile.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/base/status_macros.h"
#include "yaml-cpp/yaml.h"

namespace medley {
namespace {

// What a value must be, and where it goes. Returns the problem, or "".
using Setter = std::function<std::string(const std::string&)>;

struct Field {
  Setter set;
  enum class Presence : uint8_t { kRequired, kOptional } presence = Presence::kRequired;
};
using Fields = std::map<std::string, Field>;

Setter Number(double& out, double least, double most) {
  return [&out, least, most](const std::string& text) -> std::string {
    double value = 0;
    const bool number = absl::SimpleAtod(text, &value) && std::isfinite(value);
    if (!number || value < least || value > most)
      return absl::StrFormat("\"%s\" is not a number in [%g, %g]", text, least, most);
    out = value;
    return "";
  };
}

Setter Milliseconds(double& out_seconds) {
  return [&out_seconds](const std::string& text) {
    double milliseconds = 0;
    std::string problem = Number(milliseconds, 1e-6, 1e7)(text);
    out_seconds = milliseconds * 1e-3;
    return problem;
  };
}

Setter Whole(int& out, int most) {
  return [&out, most](const std::string& text) -> std::string {
    int value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < 1 || value > most)
      return absl::StrCat("\"", text, "\" is not a whole number in [1, ", most, "]");
    out = value;
    return "";
  };
}

Setter Size(Bytes& out) {
  return [&out](const std::string& text) -> std::string {
    const Bytes size = ParseBytes(text);
    if (size < MiB(1) || size > GiB(1 << 20))
      return absl::StrCat("\"", text, "\" is not a size from 1MiB to 1048576GiB, such as 80GiB");
    out = size;
    return "";
  };
}

Setter Name(std::string& out) {
  return [&out](const std::string& text) -> std::string {
    const char* allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
    if (text.empty() || text.size() > 64 || text.find_first_not_of(allowed) != std::string::npos)
      return absl::StrCat("\"", text, "\" is not 1 to 64 letters, digits, \"-\", \"_\" or \".\"");
    out = text;
    return "";
  };
}

template <typename T>
Setter Choice(T& out, std::map<std::string, T> values) {
  return [&out, values = std::move(values)](const std::string& text) -> std::string {
    const auto found = values.find(text);
    if (found == values.end()) {
      const std::string names =
          absl::StrJoin(values, ", ", [](std::string* s, const auto& value) { s->append(value.first); });
      return absl::StrCat("\"", text, "\" is none of: ", names);
    }
    out = found->second;
    return "";
  };
}

class Reader {
 public:
  explicit Reader(const std::string& file_name) : file_name_(file_name) {}

  absl::StatusOr<EmulationProfile> Read(const YAML::Node& root) {
    EmulationProfile profile;
    constexpr auto kOptional = Field::Presence::kOptional;
    const Fields fields = {
        {"kind", {Name(profile.kind)}},
        {"memory_bytes", {Size(profile.memory)}},
        {"matmul_f32_flops_per_second", {Number(profile.matmul_f32_flops_per_second, 1e6, 1e18)}},
        {"matmul_bf16_flops_per_second",
         {Number(profile.matmul_bf16_flops_per_second, 1e6, 1e18), kOptional}},
        {"matmul_f16_flops_per_second", {Number(profile.matmul_f16_flops_per_second, 1e6, 1e18), kOptional}},
        {"memory_bytes_per_second", {Number(profile.memory_bytes_per_second, 1e6, 1e16)}},
        {"host_link_bytes_per_second", {Number(profile.host_link_bytes_per_second, 1e3, 1e16)}},
        {"op_overhead_seconds", {Number(profile.op_overhead_seconds, 0, 1)}},
        {"attention_efficiency", {Number(profile.attention_efficiency, 1e-3, 1), kOptional}},
    };
    RETURN_IF_ERROR(ReadFields(root, "", fields, "layers"));
    const YAML::Node layers = root["layers"];
    if (!layers || layers.IsNull()) return profile;
    if (!layers.IsSequence()) return Error(layers, "layers", "must be a list (\"- {...}\" lines)");
    for (const YAML::Node& node : layers) {
      ASSIGN_OR_RETURN(const MeasuredLayer layer,
                       ReadLayer(node, absl::StrCat("layers[", profile.layers.size(), "]")));
      if (profile.computes().For(layer.precision) != layer.precision) {
        const std::string name(NameOf(layer.precision));
        return Error(node, absl::StrCat("layers[", profile.layers.size(), "].precision"),
                     absl::StrCat("is ", name, ", but the device has no matmul_", name, "_flops_per_second"));
      }
      profile.layers.push_back(layer);
    }
    return profile;
  }

 private:
  absl::Status Error(const YAML::Node& node, const std::string& path, const std::string& problem) const {
    return absl::InvalidArgumentError(absl::StrCat(file_name_, ":",
                                                   node.Mark().is_null() ? 1 : node.Mark().line + 1, ": ",
                                                   path, path.empty() ? "" : ": ", problem));
  }

  // Every key of `node` is of `fields`, or is `other` (read by the caller), and all that are required are
  // there.
  absl::Status ReadFields(const YAML::Node& node, const std::string& path, const Fields& fields,
                          const std::string& other) const {
    if (!node.IsMap()) return Error(node, path, "must have keys of its own (\"key: value\" lines)");
    const std::string prefix = path.empty() ? "" : path + ".";
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return Error(entry.first, path, "a key must be a word");
      const std::string& key = entry.first.Scalar();
      if (!seen.insert(key).second) return Error(entry.first, prefix + key, "given twice");
      if (key == other) continue;
      const auto field = fields.find(key);
      if (field == fields.end()) {
        const std::string known =
            absl::StrJoin(fields, ", ", [](std::string* s, const auto& f) { s->append(f.first); });
        return Error(entry.first, prefix + key,
                     absl::StrCat("unknown key; known are ", known, other.empty() ? "" : ", ", other));
      }
      if (!entry.second.IsScalar()) return Error(entry.first, prefix + key, "must be one value");
      const std::string problem = field->second.set(entry.second.Scalar());
      if (!problem.empty()) return Error(entry.second, prefix + key, problem);
    }
    for (const auto& [key, field] : fields) {
      if (field.presence == Field::Presence::kRequired && !seen.contains(key))
        return Error(node, prefix + key, "is missing");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<MeasuredLayer> ReadLayer(const YAML::Node& node, const std::string& path) {
    MeasuredLayer layer;
    using Family = MeasuredLayer::Family;
    constexpr auto kOptional = Field::Presence::kOptional;
    const Fields fields = {
        {"family",
         {Choice<Family>(layer.family, {{"gpt2", Family::kGpt2}, {"llama", Family::kLlama}}), kOptional}},
        {"hidden", {Whole(layer.hidden, 1 << 20)}},
        {"feed_forward", {Whole(layer.feed_forward, 1 << 22)}},
        {"heads", {Whole(layer.heads, 1 << 16)}},
        {"key_value_heads", {Whole(layer.key_value_heads, 1 << 16), kOptional}},
        {"sequence", {Whole(layer.sequence, 1 << 24)}},
        {"micro_batch", {Whole(layer.micro_batch, 1 << 16)}},
        {"precision",
         {Choice<Precision>(
             layer.precision,
             {{"f32", Precision::kF32}, {"bf16", Precision::kBf16}, {"f16", Precision::kF16}})}},
        {"forward_ms", {Milliseconds(layer.forward_seconds)}},
        {"backward_ms", {Milliseconds(layer.backward_seconds)}},
    };
    RETURN_IF_ERROR(ReadFields(node, path, fields, ""));
    if (layer.key_value_heads == 0) layer.key_value_heads = layer.heads;
    if (layer.hidden % layer.heads != 0)
      return Error(node, path + ".heads",
                   absl::StrCat(layer.heads, " does not divide hidden, ", layer.hidden));
    if (layer.heads % layer.key_value_heads != 0) {
      return Error(node, path + ".key_value_heads",
                   absl::StrCat(layer.key_value_heads, " does not divide heads, ", layer.heads));
    }
    if (layer.family == Family::kGpt2 && layer.key_value_heads != layer.heads)
      return Error(node, path + ".key_value_heads", "of gpt2 must equal heads");
    if (layer.family == Family::kLlama && layer.hidden / layer.heads % 2 != 0)
      return Error(node, path + ".heads", "hidden / heads must be even for llama");
    const auto key = std::tuple(layer.family, layer.hidden, layer.feed_forward, layer.heads,
                                layer.key_value_heads, layer.sequence, layer.micro_batch, layer.precision);
    if (!measured_.insert(key).second) return Error(node, path, "is of the same shape as one before");
    return layer;
  }

  const std::string file_name_;
  std::set<std::tuple<MeasuredLayer::Family, int, int, int, int, int, int, Precision>> measured_;
};

// FNV-1a.
std::string Digest(const std::string& text) {
  uint32_t hash = 2166136261u;
  for (const unsigned char c : text) hash = (hash ^ c) * 16777619u;
  return absl::StrFormat("%08x", hash);
}

}  // namespace

absl::StatusOr<EmulationProfile> ParseEmulationProfile(const std::string& text,
                                                       const std::string& file_name) {
  try {
    ASSIGN_OR_RETURN(EmulationProfile profile, Reader(file_name).Read(YAML::Load(text)));
    profile.digest = Digest(text);
    return profile;
  } catch (const YAML::Exception& error) {
    const std::string line = error.mark.is_null() ? "" : absl::StrCat(error.mark.line + 1, ": ");
    return absl::InvalidArgumentError(absl::StrCat(file_name, ":", line, "no YAML: ", error.msg));
  }
}

absl::StatusOr<EmulationProfile> ReadEmulationProfile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file.is_open() || file.bad()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return ParseEmulationProfile(text.str(), path);
}

}  // namespace medley
