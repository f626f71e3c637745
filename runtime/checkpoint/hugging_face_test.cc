#include "runtime/checkpoint/hugging_face.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/temporary_directory.h"
#include "runtime/model/parameters.h"

namespace medley {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

const ModelConfig kModel = {
    .layers = 2, .hidden = 8, .heads = 2, .feed_forward = 24, .vocabulary = 256, .context = 16};

json Config() {
  return {{"model_type", "gpt2"},
          {"n_layer", 2},
          {"n_embd", 8},
          {"n_head", 2},
          {"n_inner", 24},
          {"vocab_size", 256},
          {"n_positions", 16},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", 1e-5},
          {"resid_pdrop", 0.1}};
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

std::vector<float> SegmentValues(int segment) {
  std::vector<float> values;
  for (const ParameterSpec& spec : SegmentParameters(kModel, segment)) {
    const std::vector<float> tensor = ValuesOf(spec.name, spec.elements);
    values.insert(values.end(), tensor.begin(), tensor.end());
  }
  return values;
}

// Weights of segments [first, end) with a buffer such as early versions of transformers saved.
void WriteWeights(const std::string& path, const std::string& prefix, int first, int end) {
  std::vector<TensorDeclaration> declarations = {{prefix + "h.0.attn.bias", {1, 1, 2, 2}}};
  std::vector<std::vector<float>> values = {{1, 0, 1, 1}};
  for (int segment = first; segment < end; ++segment) {
    for (const ParameterSpec& spec : SegmentParameters(kModel, segment)) {
      declarations.push_back({prefix + spec.name, spec.shape});
      values.push_back(ValuesOf(spec.name, spec.elements));
    }
  }
  auto writer = SafetensorsWriter::Create(path, declarations, {{"format", "pt"}});
  REQUIRE(writer.ok());
  for (const auto& tensor : values) REQUIRE(writer->Append(tensor).ok());
  REQUIRE(writer->Commit().ok());
}

void CheckHoldsTheValues(const std::string& directory) {
  const auto model = HuggingFaceModel::Open(directory);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  CHECK(model->config() == kModel);
  for (int segment = 0; segment < SegmentCount(kModel); ++segment) {
    std::vector<float> values(static_cast<size_t>(SegmentElements(kModel, segment)));
    REQUIRE(model->ReadSegment(segment, absl::MakeSpan(values)).ok());
    CHECK(values == SegmentValues(segment));
  }
}

TEST_CASE("a model is read with and without the prefix, in one file and in shards") {
  const TemporaryDirectory directory;
  directory.Write("config.json", Config().dump());
  const std::string prefix = GENERATE("", "transformer.");
  CAPTURE(prefix);
  SECTION("one file") {
    WriteWeights(directory.File("model.safetensors"), prefix, 0, SegmentCount(kModel));
    CheckHoldsTheValues(directory.path());
  }
  SECTION("shards") {
    WriteWeights(directory.File("model-00001-of-00002.safetensors"), prefix, 0, 3);
    WriteWeights(directory.File("model-00002-of-00002.safetensors"), prefix, 3, SegmentCount(kModel));
    json map;
    for (int segment = 0; segment < SegmentCount(kModel); ++segment) {
      for (const ParameterSpec& spec : SegmentParameters(kModel, segment)) {
        map[prefix + spec.name] =
            segment < 3 ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
      }
    }
    directory.Write("model.safetensors.index.json",
                    json{{"metadata", json::object()}, {"weight_map", map}}.dump());
    CheckHoldsTheValues(directory.path());
    std::filesystem::remove(directory.File("model-00002-of-00002.safetensors"));
    const auto missing = HuggingFaceModel::Open(directory.path());
    CHECK(absl::IsNotFound(missing.status()));
    CHECK_THAT(std::string(missing.status().message()), Contains("model-00002-of-00002.safetensors"));
  }
}

TEST_CASE("an index that points outside its directory is refused") {
  const TemporaryDirectory directory;
  directory.Write("config.json", Config().dump());
  directory.Write("model.safetensors.index.json",
                  R"({"weight_map": {"wte.weight": "../other.safetensors"}})");
  const auto model = HuggingFaceModel::Open(directory.path());
  CHECK(absl::IsInvalidArgument(model.status()));
  CHECK_THAT(std::string(model.status().message()), Contains("../other.safetensors"));
}

TEST_CASE("weights that do not fit the config are refused with the tensor's name") {
  const TemporaryDirectory directory;
  json config = Config();
  WriteWeights(directory.File("model.safetensors"), "transformer.", 0, SegmentCount(kModel));
  config["n_layer"] = 3;
  directory.Write("config.json", config.dump());
  const auto missing = HuggingFaceModel::Open(directory.path());
  CHECK(absl::IsNotFound(missing.status()));
  CHECK_THAT(std::string(missing.status().message()), Contains("\"h.2.ln_1.weight\""));
  config = Config();
  config["n_positions"] = 32;
  directory.Write("config.json", config.dump());
  const auto shape = HuggingFaceModel::Open(directory.path());
  CHECK(absl::IsInvalidArgument(shape.status()));
  CHECK_THAT(std::string(shape.status().message()),
             Contains("\"transformer.wpe.weight\" has shape [16, 8], should have [32, 8]"));
  std::filesystem::remove(directory.File("model.safetensors"));
  CHECK(absl::IsNotFound(HuggingFaceModel::Open(directory.path()).status()));
}

TEST_CASE("a config is read with GPT-2's defaults") {
  const TemporaryDirectory directory;
  json config = Config();
  config["n_inner"] = nullptr;
  config["n_ctx"] = config["n_positions"];
  for (const char* name : {"layer_norm_epsilon", "activation_function", "n_positions"}) config.erase(name);
  directory.Write("config.json", config.dump());
  const auto model = ReadModelConfig(directory.path());
  REQUIRE(model.ok());
  ModelConfig expected = kModel;
  expected.feed_forward = 32;
  CHECK(*model == expected);
}

TEST_CASE("a config that is not GPT-2's is refused with the member and its value") {
  struct Case {
    std::string member;
    json value;
    std::string message;
  };
  const auto c = GENERATE(values<Case>({
      {"model_type", "llama", "\"model_type\" is \"llama\""},
      {"activation_function", "relu", "\"activation_function\" is \"relu\", only \"gelu_new\""},
      {"scale_attn_by_inverse_layer_idx", true, "\"scale_attn_by_inverse_layer_idx\" is true"},
      {"scale_attn_weights", false, "\"scale_attn_weights\" is false"},
      {"tie_word_embeddings", false, "\"tie_word_embeddings\" is false"},
      {"add_cross_attention", true, "\"add_cross_attention\" is true"},
      {"n_layer", 0, "\"n_layer\" is 0"},
      {"n_layer", nullptr, "\"n_layer\" is null"},
      {"n_embd", 1e9, "\"n_embd\" is 1000000000.0"},
      {"n_head", 3, "\"n_head\" is 3, must divide \"n_embd\", 8"},
      {"n_inner", -5, "\"n_inner\" is -5"},
      {"vocab_size", "many", "\"vocab_size\" is \"many\""},
      {"n_ctx", 17, "\"n_ctx\" is 17, \"n_positions\" is 16"},
      {"layer_norm_epsilon", 0, "\"layer_norm_epsilon\" is 0"},
  }));
  CAPTURE(c.member);
  const TemporaryDirectory directory;
  json config = Config();
  config[c.member] = c.value;
  directory.Write("config.json", config.dump());
  const auto model = ReadModelConfig(directory.path());
  REQUIRE(absl::IsInvalidArgument(model.status()));
  CHECK_THAT(std::string(model.status().message()), Contains("config.json") && Contains(c.message));
}

TEST_CASE("a directory without a config is not a model") {
  const TemporaryDirectory directory;
  CHECK(absl::IsNotFound(ReadModelConfig(directory.path()).status()));
  directory.Write("config.json", "[1]");
  CHECK(absl::IsInvalidArgument(ReadModelConfig(directory.path()).status()));
}

CheckpointManifest WriteCheckpoint(const std::string& root, int64_t step) {
  CheckpointManifest manifest = {
      .job = "export", .step = step, .model = kModel, .data = {.sequence = 8, .global_batch_sequences = 2}};
  for (int segment = 0; segment < SegmentCount(kModel); ++segment) {
    const std::vector<float> values = SegmentValues(segment);
    const std::vector<float> moments(values.size(), 9.0f);
    const auto tensors = CutSegment(kModel, segment, absl::Span<const float>(values), moments, moments);
    manifest.files.push_back(*WriteSegment(CheckpointDirectory(root, step), segment, tensors));
  }
  REQUIRE(CommitManifest(root, manifest).ok());
  return *ReadManifest(CheckpointDirectory(root, step));
}

TEST_CASE("what is exported is read back to the bit, and says that its tokens are bytes") {
  const TemporaryDirectory directory;
  const CheckpointManifest manifest = WriteCheckpoint(directory.path(), 3);
  const std::string target = directory.File("a/b/export");
  const absl::Status status = ExportHuggingFace(manifest, target + "/");
  INFO(status.ToString());
  REQUIRE(status.ok());
  CheckHoldsTheValues(target);
  const json config = json::parse(ReadFile(target + "/config.json"));
  CHECK(config["model_type"] == "gpt2");
  CHECK(config["architectures"] == json{"GPT2LMHeadModel"});
  CHECK(config["n_inner"] == 24);
  CHECK(config["layer_norm_epsilon"].dump() == "1e-05");
  CHECK(json::parse(ReadFile(target + "/medley.json"))["tokens"] == "bytes");
  const auto weights = SafetensorsFile::Open(target + "/model.safetensors");
  REQUIRE(weights.ok());
  CHECK(weights->metadata().at("format") == "pt");
  CHECK(weights->Find("transformer.h.1.mlp.c_proj.bias") != nullptr);
  CHECK(weights->tensors().size() == 2 + 2 * 12 + 2);
}

TEST_CASE("an earlier export is replaced, anything else is not") {
  const TemporaryDirectory directory;
  const CheckpointManifest manifest = WriteCheckpoint(directory.path(), 3);
  const std::string target = directory.File("export");
  std::filesystem::create_directory(target);
  REQUIRE(ExportHuggingFace(manifest, target).ok());
  CheckpointManifest later = WriteCheckpoint(directory.path(), 4);
  REQUIRE(ExportHuggingFace(later, target).ok());
  CHECK(SafetensorsFile::Open(target + "/model.safetensors")->metadata().at("medley_step") == "4");
  directory.Write("export/tokenizer.json", "{}");
  const absl::Status beside = ExportHuggingFace(manifest, target);
  CHECK(absl::IsFailedPrecondition(beside));
  CHECK_THAT(std::string(beside.message()), Contains("tokenizer.json"));
  std::filesystem::remove(directory.File("export/tokenizer.json"));
  WriteWeights(target + "/model.safetensors", "", 0, SegmentCount(kModel));
  CHECK(absl::IsFailedPrecondition(ExportHuggingFace(manifest, target)));
  CheckHoldsTheValues(target);
  CHECK(absl::IsFailedPrecondition(ExportHuggingFace(manifest, directory.Write("file", "x"))));
}

TEST_CASE("an export of a damaged checkpoint leaves the directory as it was") {
  const TemporaryDirectory directory;
  const CheckpointManifest good = WriteCheckpoint(directory.path(), 3);
  const CheckpointManifest damaged = WriteCheckpoint(directory.path(), 4);
  std::filesystem::resize_file(damaged.directory + "/segment-00004.safetensors", 100);
  const std::string fresh = directory.File("fresh"), earlier = directory.File("earlier");
  REQUIRE(ExportHuggingFace(good, earlier).ok());
  CHECK(absl::IsDataLoss(ExportHuggingFace(damaged, fresh)));
  CHECK(absl::IsDataLoss(ExportHuggingFace(damaged, earlier)));
  CHECK_FALSE(std::filesystem::exists(fresh));
  CheckHoldsTheValues(earlier);
  int entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    CAPTURE(entry.path());
    ++entries;
  }
  CHECK(entries == 3);  // two checkpoints and one export
}

}  // namespace
}  // namespace medley
