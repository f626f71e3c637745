#pragma once
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "runtime/engine/data/token_file.h"
#include "runtime/engine/data/window_order.h"
#include "runtime/engine/exec/window_source.h"
#include "runtime/ir/job/training_spec.h"

namespace medley {

// The windows of a job's token files (runtime/engine/data/README.md).
class FileWindowSource final : public WindowSource {
 public:
  // Opens the training file and, if the job has one, the validation file.
  // Errors: those of TokenFile::Open, FileFingerprint and WindowOrder::Create, with the field of the job
  // spec.
  static absl::StatusOr<std::unique_ptr<FileWindowSource>> Open(const TrainingSpec& spec);

  // "train 4293823 bytes hash 0123456789abcdef; validation 20000 bytes hash ...": equal on nodes whose files
  // are equal (file_fingerprint.h).
  const std::string& data_fingerprint() const { return data_fingerprint_; }

  void Prepare(int64_t step) override { (void)order_.WindowOf(step, 0); }
  absl::Status Read(Purpose purpose, int64_t step, int index, absl::Span<int32_t> ids) override;

 private:
  FileWindowSource(TokenFile train, WindowOrder order, const TrainingShape& shape)
      : train_(std::move(train)), order_(std::move(order)), shape_(shape) {}

  TokenFile train_;
  WindowOrder order_;
  const TrainingShape shape_;
  std::optional<TokenFile> validation_;
  int64_t validation_windows_ = 0;
  std::string data_fingerprint_;
};

}  // namespace medley
