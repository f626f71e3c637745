// config.json of Hugging Face models, from anywhere.
#include <unistd.h>

#include "runtime/base/files/temporary_directory.h"
#include "runtime/engine/checkpoint/hugging_face.h"
#include "runtime/ir/model/model_check.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/memory_file.h"

namespace medley {

std::vector<std::string> FuzzSeeds() {
  return {
      R"({"architectures":["GPT2LMHeadModel"],"model_type":"gpt2","n_layer":2,"n_embd":48,"n_head":4,
"n_inner":null,"vocab_size":97,"n_positions":32,"n_ctx":32,"layer_norm_epsilon":1e-05,
"activation_function":"gelu_new","attn_pdrop":0.0,"bos_token_id":0})",
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","num_hidden_layers":2,"hidden_size":32,
"num_attention_heads":4,"num_key_value_heads":2,"head_dim":12,"intermediate_size":56,"vocab_size":97,
"max_position_embeddings":32,"rms_norm_eps":1e-05,"rope_theta":2000.0,
"rope_scaling":{"rope_type":"llama3",
"factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":32},
"tie_word_embeddings":false,"hidden_act":"silu","attention_bias":false,"mlp_bias":false,
"bos_token_id":null})"};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  static const TemporaryDirectory* const kDirectory = new TemporaryDirectory();
  static MemoryFile* const kFile = [] {
    auto* file = new MemoryFile("");
    Demand(symlink(file->path().c_str(), kDirectory->File("config.json").c_str()) == 0,
           "there is a config.json");
    return file;
  }();
  kFile->Rewrite(TextOf(data, size));
  const absl::StatusOr<ModelConfig> config = ReadModelConfig(kDirectory->path());
  if (!config.ok()) {
    DemandRefusal(config.status());
    return 0;
  }
  Accepted();
  Demand(CheckModel(*config).ok(), "an accepted model can be one");
  return 0;
}
