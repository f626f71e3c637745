#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace medley {

// A point of some curves.
struct ScalarEvent {
  int64_t step = 0;
  double at_seconds = 0;                               // Unix
  std::vector<std::pair<std::string, double>> values;  // name ("train/loss") and value, kept as float32
};

// A file of events as TensorBoard reads it: TFRecord frames of tensorflow.Event (tensorflow/core/util/event.proto), scalars alone. Each
// event is with the system when a call returns. Not thread-safe.
class TensorBoardWriter {
 public:
  // A new file in `directory`, which is made with its parents. Steps after `done_steps` that earlier files of the directory have are made
  // again, and TensorBoard is told to drop them. Unavailable: it cannot be written, with the system's reason.
  static absl::StatusOr<std::unique_ptr<TensorBoardWriter>> Open(const std::string& directory,
                                                                 int64_t done_steps, double now_seconds);
  ~TensorBoardWriter();

  // Unavailable: it cannot be written; what was written before stays readable.
  absl::Status Write(const ScalarEvent& event);

  const std::string& file() const { return file_; }

 private:
  TensorBoardWriter(std::string file, int descriptor) : file_(std::move(file)), descriptor_(descriptor) {}
  absl::Status WriteRecord(const std::string& record);

  const std::string file_;
  const int descriptor_;
};

}  // namespace medley
