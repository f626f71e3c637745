// Weights in the safetensors format, from anywhere.
#include <algorithm>

#include "runtime/engine/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/memory_file.h"

namespace medley {
namespace {

std::string FileOf(const std::string& header, size_t data_bytes) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + std::string(data_bytes, '\1');
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  return {FileOf("{}", 0),
          FileOf(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                 R"("b":{"dtype":"BF16","shape":[5],"data_offsets":[24,34]},)"
                 R"("c":{"dtype":"I64","shape":[],"data_offsets":[34,42]}})",
                 42),
          FileOf(R"({"e":{"dtype":"F16","shape":[0,9],"data_offsets":[0,0]},)"
                 R"("f":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}}   )",
                 6)};
}

}  // namespace medley

// The input as a file; and, since few inputs have a header as long as they say, the input as a header alone.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace medley;
  const std::string_view bytes = TextOf(data, size);
  for (const std::string& contents :
       {std::string(bytes), FileOf(std::string(bytes.substr(std::min<size_t>(8, size))), 64)}) {
    const MemoryFile memory(contents);
    const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(memory.path());
    if (!file.ok()) {
      DemandRefusal(file.status());
      continue;
    }
    Accepted();
    int64_t at = 0;
    for (const StoredTensor& tensor : file->tensors()) {
      Demand(tensor.begin == at && tensor.end >= tensor.begin, "tensors lie one after the other");
      at = tensor.end;
      Demand(file->Find(tensor.name) == &tensor, "every tensor is found by its name");
      if (!file->CheckReadable(tensor.name, tensor.shape).ok()) continue;
      std::vector<float> values(static_cast<size_t>(tensor.elements));
      Demand(file->ReadAsF32(tensor.name, tensor.shape, absl::MakeSpan(values)).ok(),
             "a readable tensor is read");
    }
    Demand(at <= static_cast<int64_t>(contents.size()), "tensors lie inside the file");
  }
  return 0;
}
