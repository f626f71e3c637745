#include "agent/worker/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/engine/exec/shard_checkpoint.h"
#include "runtime/engine/shard/model_shard.h"

namespace medley {
namespace {

using Part = ParameterArena::Part;

// The model up to the last layer as one shard, and the head as two ops on one position.
class Generator {
 public:
  static absl::StatusOr<std::unique_ptr<Generator>> Create(Device& device, const std::string& directory,
                                                           const ModelConfig& config, int sequence) {
    std::unique_ptr<Generator> generator(new Generator(device, config, sequence));
    ASSIGN_OR_RETURN(generator->trunk_, generator->MakeShard({0, config.head_block()}, directory));
    ASSIGN_OR_RETURN(generator->head_,
                     generator->MakeShard({config.head_block(), config.blocks()}, directory));
    const auto tensor = [](int64_t elements) { return TensorBytes(elements, Dtype::kF32); };
    ASSIGN_OR_RETURN(generator->scratch_, device.queue->Allocate(tensor(config.hidden) + 2 * tensor(1) +
                                                                 tensor(config.vocabulary)));
    return generator;
  }

  // The logits of the token after `tokens`, which are at most `sequence`.
  absl::StatusOr<std::vector<float>> Logits(const std::vector<int32_t>& tokens) {
    std::vector<int32_t> padded(sequence_, 0);  // causal: what comes later does not matter
    std::copy(tokens.begin(), tokens.end(), padded.begin());
    RETURN_IF_ERROR(trunk_->SetTokens({}, padded));
    RETURN_IF_ERROR(trunk_->Forward({.stash = 0, .output = 0}, Purpose::kEvaluate));
    const int64_t C = config_.hidden;
    const Slice x =
        trunk_->BoundaryOf({BufferKind::kOutput, 0}).Sub((static_cast<int64_t>(tokens.size()) - 1) * C, C);
    Carver scratch(*scratch_);
    const auto take = [&](int64_t elements) { return scratch.Take(elements, Dtype::kF32); };
    const Slice normed = take(C), mean = take(1), rstd = take(1), logits = take(config_.vocabulary);
    const ParameterArena& arena = head_->arena();
    const OuterNames names = OuterNamesOf(config_);
    const auto tensor = [&](const std::string& name) {
      return name.empty() ? Slice{} : arena.Tensor(Part::kParameter, name);
    };
    RETURN_IF_ERROR(NormForward(*device_.ops, {.config = config_, .batch = 1, .sequence = 1},
                                {tensor(names.final_norm_weight), tensor(names.final_norm_bias), mean, rstd},
                                x, normed));
    RETURN_IF_ERROR(device_.ops->Matmul({.a = normed,
                                         .b = tensor(names.head),
                                         .c = logits,
                                         .m = 1,
                                         .n = config_.vocabulary,
                                         .k = C,
                                         .transpose_b = Transpose::kYes}));
    std::vector<float> values(config_.vocabulary);
    RETURN_IF_ERROR(device_.queue->Download(
        *scratch_, {logits.offset_bytes}, {reinterpret_cast<std::byte*>(values.data()), values.size() * 4}));
    RETURN_IF_ERROR(device_.queue->Wait(device_.queue->Record()));
    return values;
  }

 private:
  Generator(Device& device, const ModelConfig& config, int sequence)
      : device_(device), config_(config), sequence_(sequence) {}

  absl::StatusOr<std::unique_ptr<ModelShard>> MakeShard(BlockRange blocks, const std::string& directory) {
    const bool first = blocks.first == 0;
    ASSIGN_OR_RETURN(
        std::unique_ptr<ModelShard> shard,
        ModelShard::Create(device_,
                           {.shape = {config_, sequence_, 1},
                            .chunks = {blocks},
                            .buffers = {.stash = {1}, .input = first ? 0 : 1, .output = first ? 1 : 0}}));
    RETURN_IF_ERROR(LoadHuggingFace(directory, *shard));
    return shard;
  }

  Device& device_;
  const ModelConfig config_;
  const int sequence_;
  std::unique_ptr<ModelShard> trunk_, head_;
  std::unique_ptr<Buffer> scratch_;
};

int32_t Sample(const std::vector<float>& logits, const GenerateOptions& options, std::mt19937_64& random) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  if (options.temperature == 0) return ids[0];
  if (options.top_k > 0 && options.top_k < static_cast<int>(ids.size())) ids.resize(options.top_k);
  std::vector<double> weights;
  for (const int32_t id : ids)
    weights.push_back(std::exp((logits[id] - logits[ids[0]]) / options.temperature));
  return ids[std::discrete_distribution<int>(weights.begin(), weights.end())(random)];
}

constexpr int kByteVocabulary = 256;

absl::Status CheckOptions(const GenerateOptions& options, const ModelConfig& config) {
  const bool bytes = options.prompt_kind == PromptKind::kBytes;
  const char* const prompt = bytes ? "--prompt" : "--prompt-tokens";
  if (bytes && config.vocabulary != kByteVocabulary) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--prompt: the model has a vocabulary of %d ids, so that its tokens are not bytes; "
                        "turn the text into ids with its "
                        "tokenizer and give them as --prompt-tokens",
                        config.vocabulary));
  }
  if (options.prompt.empty())
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: is empty; give at least one %s", prompt, bytes ? "character" : "id"));
  if (options.tokens < 1)
    return absl::InvalidArgumentError(absl::StrFormat("--tokens: %d is not at least 1", options.tokens));
  if (!(options.temperature >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--temperature: %g is not at least 0", options.temperature));
  }
  if (options.top_k < 0)
    return absl::InvalidArgumentError(absl::StrFormat("--top-k: %d is not at least 0", options.top_k));
  for (const int32_t id : options.prompt) {
    if (id < 0 || id >= config.vocabulary) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: token %d is not in the model's vocabulary, [0, %d)", prompt, id, config.vocabulary));
    }
  }
  return absl::OkStatus();
}

// A folder that the user named and that is not there, or lacks a file, is wrong input like any other option. Of a
// device nothing is ever not found.
absl::Status OfModel(const absl::Status& status) {
  if (!absl::IsNotFound(status) && !absl::IsPermissionDenied(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat("--model: ", status.message()));
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ParseTokenIds(const std::string& text) {
  std::vector<int32_t> ids;
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(", \t\n[]"), absl::SkipEmpty())) {
    int32_t id;
    if (!absl::SimpleAtoi(word, &id) || id < 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "--prompt-tokens: \"%s\" is not a token's id; write ids as in 1,2,3", absl::CHexEscape(word)));
    }
    ids.push_back(id);
  }
  if (ids.empty()) return absl::InvalidArgumentError("--prompt-tokens: is empty; give at least one id");
  return ids;
}

absl::Status Generate(Device& device, const GenerateOptions& options, const std::function<void()>& begin,
                      const std::function<void(int32_t)>& emit) {
  const absl::StatusOr<ModelConfig> read = ReadModelConfig(options.model_directory);
  if (!read.ok()) return OfModel(read.status());
  const ModelConfig& config = *read;
  RETURN_IF_ERROR(CheckOptions(options, config));
  const int64_t wanted = static_cast<int64_t>(options.prompt.size()) + options.tokens;
  const int sequence = static_cast<int>(std::min<int64_t>(config.context, wanted));
  const absl::StatusOr<std::unique_ptr<Generator>> created =
      Generator::Create(device, options.model_directory, config, sequence);
  if (!created.ok()) return OfModel(created.status());
  Generator& generator = **created;
  begin();
  std::mt19937_64 random(options.seed);
  std::vector<int32_t> tokens = options.prompt;
  for (int i = 0; i < options.tokens; ++i) {
    const size_t from = tokens.size() > static_cast<size_t>(sequence) ? tokens.size() - sequence : 0;
    ASSIGN_OR_RETURN(const std::vector<float> logits,
                     generator.Logits({tokens.begin() + from, tokens.end()}));
    tokens.push_back(Sample(logits, options, random));
    emit(tokens.back());
  }
  return absl::OkStatus();
}

}  // namespace medley
