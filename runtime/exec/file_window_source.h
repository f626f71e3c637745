#pragma once
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "runtime/data/token_file.h"
#include "runtime/data/window_order.h"
#include "runtime/exec/window_source.h"
#include "runtime/job/training_spec.h"

namespace medley {

// The windows of a job's token files (runtime/data/README.md).
class FileWindowSource final : public WindowSource {
 public:
  // Opens the training file and, if the job has one, the validation file.
  // Errors: those of TokenFile::Open and WindowOrder::Create, with the field of the job spec.
  static absl::StatusOr<std::unique_ptr<FileWindowSource>> Open(const TrainingSpec& spec);

  absl::Status Read(Purpose purpose, int64_t step, int index, absl::Span<int32_t> ids) override;

 private:
  FileWindowSource(TokenFile train, WindowOrder order, const TrainingShape& shape)
      : train_(std::move(train)), order_(std::move(order)), shape_(shape) {}

  TokenFile train_;
  WindowOrder order_;
  const TrainingShape shape_;
  std::optional<TokenFile> validation_;
  int64_t validation_windows_ = 0;
};

}  // namespace medley
