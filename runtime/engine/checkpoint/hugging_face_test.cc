#include "runtime/engine/checkpoint/hugging_face.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/checkpoint.h"
#include "runtime/ir/model/parameters.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

// One model of each kind that files differ for.
struct Sample {
  std::string name;
  ModelConfig model;
  std::string prefix;
  std::vector<std::string> bare;  // tensors that have no prefix
  std::string buffer;             // what early versions of transformers saved beside the parameters
};

const Sample kGpt2 = {
    "gpt2",
    {.layers = 2, .hidden = 8, .heads = 2, .feed_forward = 24, .vocabulary = 256, .context = 16},
    "transformer.",
    {},
    "h.0.attn.bias"};
const Sample kLlama = {"llama",
                       {.layers = 2,
                        .hidden = 8,
                        .heads = 4,
                        .feed_forward = 12,
                        .vocabulary = 256,
                        .context = 16,
                        .family = ModelFamily::kLlama,
                        .tied_head = false,
                        .key_value_heads = 2,
                        .head_size = 6,
                        .rotary_base = 500000,
                        .rotary_scaling = RotaryScaling{32, 0.7f, 4.1f, 8}},
                       "model.",
                       {"lm_head.weight"},
                       "layers.0.self_attn.rotary_emb.inv_freq"};
const Sample kTiedLlama = [] {
  Sample sample = kLlama;
  sample.name = "tied llama";
  sample.model.tied_head = true;
  return sample;
}();

std::string StoredName(const Sample& sample, const std::string& prefix, const std::string& name) {
  return std::count(sample.bare.begin(), sample.bare.end(), name) > 0 ? name : prefix + name;
}

json Config(const Sample& sample) {
  if (sample.name == "gpt2") {
    return {{"model_type", "gpt2"}, {"n_layer", 2},      {"n_embd", 8},      {"n_head", 2},
            {"n_inner", 24},        {"vocab_size", 256}, {"n_positions", 16}};
  }
  return {{"model_type", "llama"},
          {"num_hidden_layers", 2},
          {"hidden_size", 8},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 6},
          {"intermediate_size", 12},
          {"vocab_size", 256},
          {"max_position_embeddings", 16},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"rope_scaling",
           {{"rope_type", "llama3"},
            {"factor", 32},
            {"low_freq_factor", 0.7},
            {"high_freq_factor", 4.1},
            {"original_max_position_embeddings", 8}}},
          {"tie_word_embeddings", sample.model.tied_head}};
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<float> ValuesOf(const std::string& name, int64_t elements) {
  std::mt19937_64 random(std::hash<std::string>()(name));
  std::vector<float> values(static_cast<size_t>(elements));
  for (float& value : values) value = std::normal_distribution<float>()(random);
  return values;
}

std::vector<float> SegmentValues(const ModelConfig& model, SegmentId segment) {
  std::vector<float> values;
  for (const ParameterSpec& spec : SegmentParameters(model, segment)) {
    const std::vector<float> tensor = ValuesOf(spec.name, spec.elements);
    values.insert(values.end(), tensor.begin(), tensor.end());
  }
  return values;
}

// Weights of segments [first, end), and a buffer.
void WriteWeights(const std::string& path, const Sample& sample, const std::string& prefix, SegmentId first,
                  SegmentId end) {
  std::vector<TensorDeclaration> declarations = {{prefix + sample.buffer, {1, 1, 2, 2}}};
  std::vector<std::vector<float>> values = {{1, 0, 1, 1}};
  for (SegmentId segment = first; segment < end; ++segment) {
    for (const ParameterSpec& spec : SegmentParameters(sample.model, segment)) {
      declarations.push_back({StoredName(sample, prefix, spec.name), spec.shape});
      values.push_back(ValuesOf(spec.name, spec.elements));
    }
  }
  auto writer = SafetensorsWriter::Create(path, declarations, {{"format", "pt"}});
  REQUIRE(writer.ok());
  for (const auto& tensor : values) REQUIRE(writer->Append(tensor).ok());
  REQUIRE(writer->Commit().ok());
}

void CheckHoldsTheValues(const std::string& directory, const ModelConfig& expected) {
  const auto model = HuggingFaceModel::Open(directory);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(model->config() == expected);
  for (SegmentId segment = 0; segment < SegmentCount(expected); ++segment) {
    CAPTURE(segment);
    std::vector<float> values(static_cast<size_t>(SegmentElements(expected, segment)));
    REQUIRE(model->ReadSegment(segment, absl::MakeSpan(values)).ok());
    CHECK(values == SegmentValues(expected, segment));
  }
}

TEST_CASE("a model is read with and without the prefix, in one file and in shards") {
  const Sample sample = GENERATE(kGpt2, kLlama, kTiedLlama);
  const TemporaryDirectory directory;
  directory.Write("config.json", Config(sample).dump());
  const std::string prefix = GENERATE_COPY(std::string(), sample.prefix);
  CAPTURE(sample.name, prefix);
  SECTION("one file") {
    WriteWeights(directory.File("model.safetensors"), sample, prefix, 0, SegmentCount(sample.model));
    CheckHoldsTheValues(directory.path(), sample.model);
  }
  SECTION("shards") {
    WriteWeights(directory.File("model-00001-of-00002.safetensors"), sample, prefix, 0, 3);
    WriteWeights(directory.File("model-00002-of-00002.safetensors"), sample, prefix, 3,
                 SegmentCount(sample.model));
    json map;
    for (SegmentId segment = 0; segment < SegmentCount(sample.model); ++segment) {
      for (const ParameterSpec& spec : SegmentParameters(sample.model, segment)) {
        map[StoredName(sample, prefix, spec.name)] =
            segment < 3 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
      }
    }
    directory.Write("model.safetensors.index.json",
                    json{{"metadata", json::object()}, {"weight_map", map}}.dump());
    CheckHoldsTheValues(directory.path(), sample.model);
    std::filesystem::remove(directory.File("model-00002-of-00002.safetensors"));
    const auto missing = HuggingFaceModel::Open(directory.path());
    CHECK(absl::IsNotFound(missing.status()));
    CHECK_THAT(std::string(missing.status().message()), Contains("model-00002-of-00002.safetensors"));
  }
}

TEST_CASE("an index that points outside its directory is refused") {
  const TemporaryDirectory directory;
  directory.Write("config.json", Config(kGpt2).dump());
  directory.Write("model.safetensors.index.json",
                  R"({"weight_map": {"wte.weight": "../other.safetensors"}})");
  const auto model = HuggingFaceModel::Open(directory.path());
  CHECK(absl::IsInvalidArgument(model.status()));
  CHECK_THAT(std::string(model.status().message()), Contains("../other.safetensors"));
}

// The sample's files with one more tensor.
std::string WriteModelWith(const TemporaryDirectory& directory, const Sample& sample,
                           const TensorDeclaration& extra, const std::vector<float>& extra_values) {
  directory.Write("config.json", Config(sample).dump());
  std::vector<TensorDeclaration> declarations = {extra};
  std::vector<std::vector<float>> values = {extra_values};
  for (SegmentId segment = 0; segment < SegmentCount(sample.model); ++segment) {
    for (const ParameterSpec& spec : SegmentParameters(sample.model, segment)) {
      if (StoredName(sample, sample.prefix, spec.name) == extra.name) continue;
      declarations.push_back({StoredName(sample, sample.prefix, spec.name), spec.shape});
      values.push_back(ValuesOf(spec.name, spec.elements));
    }
  }
  auto writer = SafetensorsWriter::Create(directory.File("model.safetensors"), declarations, {});
  REQUIRE(writer.ok());
  for (const auto& tensor : values) REQUIRE(writer->Append(tensor).ok());
  REQUIRE(writer->Commit().ok());
  return directory.path();
}

TEST_CASE("a tied head that is not the token embedding is refused, one that is, is not") {
  const Sample sample = GENERATE(kGpt2, kTiedLlama);
  const std::string embedding = sample.name == "gpt2" ? "wte.weight" : "embed_tokens.weight";
  const TemporaryDirectory directory;
  std::vector<float> head = ValuesOf(embedding, 256 * 8);
  const std::string path = directory.path();
  CheckHoldsTheValues(WriteModelWith(directory, sample, {"lm_head.weight", {256, 8}}, head), sample.model);
  head[1234] += 1;
  const auto model =
      HuggingFaceModel::Open(WriteModelWith(directory, sample, {"lm_head.weight", {256, 8}}, head));
  CHECK(absl::IsInvalidArgument(model.status()));
  CHECK_THAT(std::string(model.status().message()),
             Contains("\"lm_head.weight\" is not equal to \"" + sample.prefix + embedding + "\""));
}

TEST_CASE("tensors of layers that the config does not have are refused by name") {
  const Sample sample = GENERATE(kGpt2, kLlama);
  const std::string name =
      sample.prefix + (sample.name == "gpt2" ? "h.2.ln_1.weight" : "layers.2.input_layernorm.weight");
  const TemporaryDirectory directory;
  const auto model =
      HuggingFaceModel::Open(WriteModelWith(directory, sample, {name, {8}}, std::vector<float>(8)));
  CHECK(absl::IsInvalidArgument(model.status()));
  CHECK_THAT(std::string(model.status().message()), Contains("\"" + name + "\" belongs to a layer"));
  CHECK_THAT(std::string(model.status().message()), Contains("config.json is 2"));
}

TEST_CASE("weights that are not finite are refused with file, tensor and element") {
  const float value = GENERATE(std::nanf(""), std::numeric_limits<float>::infinity());
  const TemporaryDirectory directory;
  std::vector<float> norm(8, 1.0f);
  norm[5] = value;
  const auto model =
      HuggingFaceModel::Open(WriteModelWith(directory, kGpt2, {"transformer.ln_f.bias", {8}}, norm));
  REQUIRE(model.ok());
  absl::Status refused;
  for (SegmentId segment = 0; segment < SegmentCount(kGpt2.model); ++segment) {
    std::vector<float> values(static_cast<size_t>(SegmentElements(kGpt2.model, segment)));
    refused.Update(model->ReadSegment(segment, absl::MakeSpan(values)));
  }
  CHECK(absl::IsInvalidArgument(refused));
  CHECK_THAT(std::string(refused.message()), Contains("model.safetensors: \"transformer.ln_f.bias\" has "));
  CHECK_THAT(std::string(refused.message()), Contains("as its element 5"));
}

TEST_CASE("weights that do not fit the config are refused with the tensor's name") {
  struct Case {
    Sample sample;
    std::string member;
    json value;
    absl::StatusCode code;
    std::string message;
  };
  const auto c = GENERATE(values<Case>({
      {kGpt2, "n_layer", 3, absl::StatusCode::kNotFound, "no tensor \"transformer.h.2.ln_1.weight\""},
      {kGpt2, "n_positions", 32, absl::StatusCode::kInvalidArgument,
       "\"transformer.wpe.weight\" has shape [16, 8], should have [32, 8]"},
      {kLlama, "num_hidden_layers", 3, absl::StatusCode::kNotFound,
       "no tensor \"model.layers.2.input_layernorm.weight\""},
      {kLlama, "num_key_value_heads", 4, absl::StatusCode::kInvalidArgument,
       "\"model.layers.0.self_attn.k_proj.weight\" has shape [12, 8], should have [24, 8]"},
      {kTiedLlama, "tie_word_embeddings", false, absl::StatusCode::kNotFound, "no tensor \"lm_head.weight\""},
  }));
  const TemporaryDirectory directory;
  WriteWeights(directory.File("model.safetensors"), c.sample, c.sample.prefix, 0,
               SegmentCount(c.sample.model));
  json config = Config(c.sample);
  config[c.member] = c.value;
  directory.Write("config.json", config.dump());
  const auto model = HuggingFaceModel::Open(directory.path());
  CHECK(model.status().code() == c.code);
  CHECK_THAT(std::string(model.status().message()), Contains(c.message));
  std::filesystem::remove(directory.File("model.safetensors"));
  CHECK(absl::IsNotFound(HuggingFaceModel::Open(directory.path()).status()));
}

CheckpointManifest WriteCheckpoint(const ModelConfig& model, const std::string& root, int64_t step) {
  CheckpointManifest manifest = {
      .job = "export", .step = step, .model = model, .data = {.sequence = 8, .global_batch_sequences = 2}};
  for (SegmentId segment = 0; segment < SegmentCount(model); ++segment) {
    const std::vector<float> values = SegmentValues(model, segment);
    const std::vector<float> moments(values.size(), 9.0f);
    const auto tensors = CutSegment(model, segment, absl::Span<const float>(values), moments, moments);
    manifest.files.push_back(*WriteSegment(CheckpointDirectory(root, step), segment, tensors));
  }
  REQUIRE(CommitManifest(root, manifest).ok());
  return *ReadManifest(CheckpointDirectory(root, step));
}

TEST_CASE("what is exported is read back to the bit, and says that its tokens are bytes") {
  const Sample sample = GENERATE(kGpt2, kLlama, kTiedLlama);
  CAPTURE(sample.name);
  const TemporaryDirectory directory;
  const CheckpointManifest manifest = WriteCheckpoint(sample.model, directory.path(), 3);
  const std::string target = directory.File("a/b/export");
  const absl::Status status = ExportHuggingFace(manifest, target + "/");
  INFO(status.ToString());
  REQUIRE(status.ok());
  CheckHoldsTheValues(target, sample.model);
  CHECK(json::parse(ReadFile(target + "/medley.json"))["tokens"] == "bytes");
  const auto weights = SafetensorsFile::Open(target + "/model.safetensors");
  REQUIRE(weights.ok());
  CHECK(weights->metadata().at("format") == "pt");
  size_t parameters = 0;
  for (SegmentId segment = 0; segment < SegmentCount(sample.model); ++segment) {
    for (const ParameterSpec& spec : SegmentParameters(sample.model, segment)) {
      ++parameters;
      CHECK(weights->Find(StoredName(sample, sample.prefix, spec.name)) != nullptr);
    }
  }
  CHECK(weights->tensors().size() == parameters);
}

TEST_CASE("an earlier export is replaced, anything else is not") {
  const TemporaryDirectory directory;
  const CheckpointManifest manifest = WriteCheckpoint(kGpt2.model, directory.path(), 3);
  const std::string target = directory.File("export");
  std::filesystem::create_directory(target);
  REQUIRE(ExportHuggingFace(manifest, target).ok());
  CheckpointManifest later = WriteCheckpoint(kGpt2.model, directory.path(), 4);
  REQUIRE(ExportHuggingFace(later, target).ok());
  CHECK(SafetensorsFile::Open(target + "/model.safetensors")->metadata().at("medley_step") == "4");
  directory.Write("export/tokenizer.json", "{}");
  const absl::Status beside = ExportHuggingFace(manifest, target);
  CHECK(absl::IsFailedPrecondition(beside));
  CHECK_THAT(std::string(beside.message()), Contains("tokenizer.json"));
  std::filesystem::remove(directory.File("export/tokenizer.json"));
  WriteWeights(target + "/model.safetensors", kGpt2, "", 0, SegmentCount(kGpt2.model));
  CHECK(absl::IsFailedPrecondition(ExportHuggingFace(manifest, target)));
  CheckHoldsTheValues(target, kGpt2.model);
  CHECK(absl::IsFailedPrecondition(ExportHuggingFace(manifest, directory.Write("file", "x"))));
}

TEST_CASE("an export of a damaged checkpoint leaves the directory as it was") {
  const TemporaryDirectory directory;
  const CheckpointManifest good = WriteCheckpoint(kGpt2.model, directory.path(), 3);
  const CheckpointManifest damaged = WriteCheckpoint(kGpt2.model, directory.path(), 4);
  std::filesystem::resize_file(damaged.directory + "/segment-00004.safetensors", 100);
  const std::string fresh = directory.File("fresh"), earlier = directory.File("earlier");
  REQUIRE(ExportHuggingFace(good, earlier).ok());
  CHECK(absl::IsDataLoss(ExportHuggingFace(damaged, fresh)));
  CHECK(absl::IsDataLoss(ExportHuggingFace(damaged, earlier)));
  CHECK_FALSE(std::filesystem::exists(fresh));
  CheckHoldsTheValues(earlier, kGpt2.model);
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    CAPTURE(entry.path());
    ++entries;
  }
  CHECK(entries == 3);  // two checkpoints and one export
}

}  // namespace
}  // namespace medley
