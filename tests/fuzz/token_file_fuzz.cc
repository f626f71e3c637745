// Training data: llm.c's header, and rows of ids.
#include <algorithm>
#include <cstring>

#include "runtime/engine/data/token_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/memory_file.h"

namespace medley {
namespace {

std::string LlmC(int32_t magic, int32_t version, int32_t tokens, size_t token_bytes) {
  int32_t header[256] = {magic, version, tokens};
  return std::string(reinterpret_cast<const char*>(header), sizeof(header)) +
         std::string(tokens * token_bytes, '\0');
}

}  // namespace

// First byte: format.
std::vector<std::string> FuzzSeeds() {
  return {'\0' + LlmC(20240520, 1, 9, 2), '\4' + LlmC(20240801, 7, 5, 4), std::string("\1text"),
          std::string("\2\1\0\2\0", 5), std::string("\3\1\0\0\0", 5)};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  if (size == 0) return 0;
  const MemoryFile memory(TextOf(data + 1, size - 1));
  constexpr int kVocabulary = 50257;
  const absl::StatusOr<TokenFile> file =
      TokenFile::Open(memory.path(), static_cast<TokenFormat>(data[0] % 5), kVocabulary);
  if (!file.ok()) {
    DemandRefusal(file.status());
    return 0;
  }
  Accepted();
  Demand(file->tokens() >= 1 && file->tokens() <= static_cast<int64_t>(size),
         "there are no more tokens than bytes");
  Demand(file->format() != TokenFormat::kAutomatic, "the format is known");
  std::vector<int32_t> ids(static_cast<size_t>(file->tokens()));
  const absl::Status read = file->Read(0, absl::MakeSpan(ids));
  if (!read.ok()) {
    DemandRefusal(read);
  } else {
    Demand(std::all_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 0 && id < kVocabulary; }),
           "ids are of the vocabulary");
  }
  DemandRefusal(file->Read(1, absl::MakeSpan(ids)));
  return 0;
}
