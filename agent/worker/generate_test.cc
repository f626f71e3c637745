#include "agent/worker/generate.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "kernels/reference/reference_backend.h"

namespace medley {
namespace {

// A folder with the configuration of a GPT-2 of so many ids, and without its weights.
std::string ModelOf(int vocabulary) {
  const char* given = std::getenv("TEST_TMPDIR");
  std::string folder = std::string(given == nullptr ? "/tmp" : given) + "/generate-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  std::ofstream(folder + "/config.json")
      << R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 1, "n_positions": 16, "vocab_size": )"
      << vocabulary << R"(, "activation_function": "gelu_new"})";
  return folder;
}

// The error of a generation that must not begin, of input that is wrong.
std::string Refusal(const GenerateOptions& options) {
  absl::StatusOr<Device> device = ReferenceBackend().open(
      {.name = "ref0", .backend = "reference", .cores = {0}, .memory_limit = {int64_t{1} << 30}});
  REQUIRE(device.status().ToString() == "OK");
  const absl::Status status = Generate(
      *device, options, [] { FAIL("it has begun"); }, [](int32_t) { FAIL("it has generated"); });
  CHECK(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST_CASE("ids are written with commas, blanks or brackets") {
  for (const char* text : {"1,2,3", "1 2 3", "[1,2,3]", "[1, 2, 3]", "1, 2, 3"}) {
    CAPTURE(text);
    const absl::StatusOr<std::vector<int32_t>> ids = ParseTokenIds(text);
    REQUIRE(ids.status().ToString() == "OK");
    CHECK(*ids == std::vector<int32_t>{1, 2, 3});
  }
  CHECK(ParseTokenIds("1,two").status().message() ==
        "--prompt-tokens: \"two\" is not a token's id; write ids as in 1,2,3");
  CHECK(ParseTokenIds("-1").status().message() ==
        "--prompt-tokens: \"-1\" is not a token's id; write ids as in 1,2,3");
  CHECK(ParseTokenIds("[]").status().message() == "--prompt-tokens: is empty; give at least one id");
}

TEST_CASE("text is for a model whose tokens are bytes") {
  CHECK(Refusal({.model_directory = ModelOf(50257), .prompt = {72}, .prompt_kind = PromptKind::kBytes}) ==
        "--prompt: the model has a vocabulary of 50257 ids, so that its tokens are not bytes; turn the text "
        "into ids with "
        "its tokenizer and give them as --prompt-tokens");
}

TEST_CASE("what is wrong with an option names it, and nothing has begun") {
  const std::string model = ModelOf(256);
  CHECK(Refusal({.model_directory = model, .prompt = {300}}) ==
        "--prompt-tokens: token 300 is not in the model's vocabulary, [0, 256)");
  CHECK(Refusal({.model_directory = model, .prompt = {}}) ==
        "--prompt-tokens: is empty; give at least one id");
  CHECK(Refusal({.model_directory = model, .prompt = {}, .prompt_kind = PromptKind::kBytes}) ==
        "--prompt: is empty; give at least one character");
  CHECK(Refusal({.model_directory = model, .prompt = {1}, .tokens = -1}) == "--tokens: -1 is not at least 1");
  CHECK(Refusal({.model_directory = model, .prompt = {1}, .top_k = -1}) == "--top-k: -1 is not at least 0");
}

TEST_CASE("a model that is not there is named before the prompt is shown") {
  CHECK_THAT(Refusal({.model_directory = "/nowhere", .prompt = {1}}),
             Catch::StartsWith("--model: ") && Catch::Contains("/nowhere"));
  // The configuration alone is no model.
  CHECK_THAT(Refusal({.model_directory = ModelOf(256), .prompt = {1}}), Catch::Contains("model.safetensors"));
}

}  // namespace
}  // namespace medley
