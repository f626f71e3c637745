// Captured calls and results, from a device that is compared.
#include <xxhash.h>

#include <cstring>

#include "runtime/engine/align/call_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace medley {
namespace {

std::string Joined(const FileParts& parts) {
  std::string file(reinterpret_cast<const char*>(parts.head.data()), parts.head.size());
  for (const auto& body : parts.bodies) file.append(reinterpret_cast<const char*>(body.data()), body.size());
  return file;
}

absl::Span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// With the header's checksum corrected (runtime/engine/align/README.md has the layout).
std::string Corrected(std::string file) {
  uint32_t header_bytes = 0;
  if (file.size() < 24) return file;
  std::memcpy(&header_bytes, file.data() + 12, sizeof(header_bytes));
  if (header_bytes > file.size() - 24) return file;
  const uint64_t sum = XXH3_64bits(file.data() + 24, header_bytes);
  std::memcpy(file.data() + 16, &sum, sizeof(sum));
  return file;
}

void Try(const std::string& file) {
  if (const absl::StatusOr<CapturedCall> call = DecodeCall(BytesOf(file)); call.ok()) {
    Accepted();
    Demand(CheckCall(*call).ok(), "an accepted call can be one");
    const std::string encoded = Joined(EncodeCall(*call));
    const absl::StatusOr<CapturedCall> again = DecodeCall(BytesOf(encoded));
    Demand(again.ok(), "an accepted call is written so that it can be read");
    Demand(Joined(EncodeCall(*again)) == encoded, "it is read back as it was");
  } else {
    DemandRefusal(call.status());
  }
  if (const absl::StatusOr<CallResult> result = DecodeResult(BytesOf(file)); result.ok()) {
    Accepted();
    const std::string encoded = Joined(EncodeResult(*result));
    const absl::StatusOr<CallResult> again = DecodeResult(BytesOf(encoded));
    Demand(again.ok(), "an accepted result is written so that it can be read");
    Demand(Joined(EncodeResult(*again)) == encoded, "it is read back as it was");
  } else {
    DemandRefusal(result.status());
  }
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  CapturedCall call{.place = {.index = 12, .step = 2, .position = "h.0.mlp"}};
  call.args = SwiGluForwardArgs{.x = PlacelessSlice(0), .y = PlacelessSlice(0), .rows = 2, .columns = 3};
  for (const OpSlice& operand : Operands(call)) {
    CapturedTensor tensor{
        .name = operand.name, .dtype = operand.dtype, .access = operand.access, .elements = operand.elements};
    if (operand.access != Access::kWrite) tensor.before.resize(tensor.elements * SizeOf(tensor.dtype).value);
    call.tensors.push_back(std::move(tensor));
  }
  CallResult result{.index = 12};
  result.outputs.push_back({.name = "y", .contents = std::vector<std::byte>(24)});
  const CallResult refusal{.index = 3, .status = absl::UnimplementedError("no such op")};
  return {Joined(EncodeCall(call)), Joined(EncodeResult(result)), Joined(EncodeResult(refusal))};
}

}  // namespace medley

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string file(medley::TextOf(data, size));
  medley::Try(file);
  medley::Try(medley::Corrected(file));
  return 0;
}
