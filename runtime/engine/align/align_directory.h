#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/engine/align/alignment.h"
#include "runtime/engine/align/call_file.h"
#include "runtime/engine/align/device_record.h"

namespace medley {

// The files through which the workers of one alignment and the one that compares them meet:
//   calls/000000012.call                   the captured call of that index
//   a/000000012.result, b/..., oracle/...  what each party made of it
//   a.json, b.json, oracle.json            its DeviceRecord
// Every file is there whole or not at all. Errors of writing: the system's, with the path. Errors of reading:
// also those of the decoder, with the path.
class AlignDirectory {
 public:
  explicit AlignDirectory(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // Creates the folders.
  absl::Status Create() const;

  absl::Status WriteCall(const CapturedCall& call) const;
  // Indices of the captured calls, ascending.
  absl::StatusOr<std::vector<int64_t>> Calls() const;
  absl::StatusOr<CapturedCall> ReadCall(int64_t index) const;

  absl::Status WriteResult(Party party, const CallResult& result) const;
  // NotFound: the party left none.
  absl::StatusOr<CallResult> ReadResult(Party party, int64_t index) const;

  absl::Status WriteRecord(Party party, const DeviceRecord& record) const;
  // NotFound: the party left none.
  absl::StatusOr<DeviceRecord> ReadRecord(Party party) const;

  // Compares what all parties left, call after call; one call and its results are in memory at a time. A
  // result that is missing counts as a failure of its party: "it left no result". Its first missing call is
  // where it died.
  absl::StatusOr<Alignment> Compare(Precision precision_a, Precision precision_b) const;

 private:
  std::string CallPath(int64_t index) const;
  std::string ResultPath(Party party, int64_t index) const;

  const std::string path_;
};

// "a", "b", "oracle".
std::string NameOf(Party party);

}  // namespace medley
