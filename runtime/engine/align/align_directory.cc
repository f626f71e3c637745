#include "runtime/engine/align/align_directory.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/files/atomic_file.h"
#include "runtime/base/files/mapped_file.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/align/file_parts.h"

namespace medley {
namespace {

constexpr char kCallEnding[] = ".call";
constexpr Party kAllParties[] = {Party::kA, Party::kB, Party::kOracle};

template <typename Decode>
auto DecodeFile(const std::string& path, Decode decode) -> decltype(decode({})) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  auto decoded = decode(file.bytes());
  if (!decoded.ok()) return Annotate(decoded.status(), path);
  return decoded;
}

}  // namespace

std::string NameOf(Party party) {
  switch (party) {
    case Party::kA:
      return "a";
    case Party::kB:
      return "b";
    case Party::kOracle:
      return "oracle";
  }
  return "?";
}

std::string AlignDirectory::CallPath(int64_t index) const {
  return absl::StrFormat("%s/calls/%09d%s", path_, index, kCallEnding);
}

std::string AlignDirectory::ResultPath(Party party, int64_t index) const {
  return absl::StrFormat("%s/%s/%09d.result", path_, NameOf(party), index);
}

absl::Status AlignDirectory::Create() const {
  RETURN_IF_ERROR(CreateDirectories(absl::StrCat(path_, "/calls")));
  for (const Party party : kAllParties) {
    RETURN_IF_ERROR(CreateDirectories(absl::StrCat(path_, "/", NameOf(party))));
  }
  return absl::OkStatus();
}

absl::Status AlignDirectory::WriteCall(const CapturedCall& call) const {
  return WriteParts(CallPath(call.place.index), EncodeCall(call));
}

absl::StatusOr<std::vector<int64_t>> AlignDirectory::Calls() const {
  std::vector<int64_t> indices;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(absl::StrCat(path_, "/calls"), error)) {
    int64_t index = 0;
    const bool is_call = entry.path().extension() == kCallEnding;
    if (is_call && absl::SimpleAtoi(entry.path().stem().string(), &index)) indices.push_back(index);
  }
  if (error) return absl::NotFoundError(absl::StrCat(path_, "/calls: ", error.message()));
  std::sort(indices.begin(), indices.end());
  return indices;
}

absl::StatusOr<CapturedCall> AlignDirectory::ReadCall(int64_t index) const {
  return DecodeFile(CallPath(index), [](absl::Span<const std::byte> file) { return DecodeCall(file); });
}

absl::Status AlignDirectory::WriteResult(Party party, const CallResult& result) const {
  return WriteParts(ResultPath(party, result.index), EncodeResult(result));
}

absl::StatusOr<CallResult> AlignDirectory::ReadResult(Party party, int64_t index) const {
  return DecodeFile(ResultPath(party, index),
                    [](absl::Span<const std::byte> file) { return DecodeResult(file); });
}

absl::Status AlignDirectory::WriteRecord(Party party, const DeviceRecord& record) const {
  return WriteFileAtomically(absl::StrCat(path_, "/", NameOf(party), ".json"), EncodeDeviceRecord(record));
}

absl::StatusOr<DeviceRecord> AlignDirectory::ReadRecord(Party party) const {
  return DecodeFile(absl::StrCat(path_, "/", NameOf(party), ".json"), [](absl::Span<const std::byte> file) {
    return DecodeDeviceRecord({reinterpret_cast<const char*>(file.data()), file.size()});
  });
}

absl::StatusOr<Alignment> AlignDirectory::Compare(Precision precision_a, Precision precision_b) const {
  Alignment alignment;
  ASSIGN_OR_RETURN(const std::vector<int64_t> indices, Calls());
  for (const int64_t index : indices) {
    ASSIGN_OR_RETURN(const CapturedCall call, ReadCall(index));
    std::array<CallResult, kParties> results;
    for (const Party party : kAllParties) {
      CallResult& to = results[static_cast<int>(party)];
      absl::StatusOr<CallResult> result = ReadResult(party, index);
      if (result.ok()) {
        to = *std::move(result);
      } else if (absl::IsNotFound(result.status())) {
        to.status = absl::UnavailableError("it left no result");
      } else {
        return result.status();
      }
    }
    alignment.Add(CompareCall(call, results, precision_a, precision_b));
  }
  return alignment;
}

}  // namespace medley
