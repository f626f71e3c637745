#include "runtime/engine/exec/file_window_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/base/files/file_fingerprint.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::StatusOr<TokenFile> OpenAs(const std::string& field, const std::string& path,
                                 const TrainingSpec& spec) {
  absl::StatusOr<TokenFile> file = TokenFile::Open(path, spec.data_format, spec.shape.model.vocabulary);
  if (!file.ok()) return Annotate(file.status(), field);
  return file;
}

absl::Status AddFingerprint(const std::string& name, const std::string& path, std::string& text) {
  const absl::StatusOr<std::string> fingerprint = FileFingerprint(path);
  if (!fingerprint.ok()) return Annotate(fingerprint.status(), absl::StrCat("data.", name));
  absl::StrAppend(&text, name, " ", *fingerprint);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileWindowSource>> FileWindowSource::Open(const TrainingSpec& spec) {
  ASSIGN_OR_RETURN(TokenFile train, OpenAs("data.train", spec.train_file, spec));
  absl::StatusOr<WindowOrder> order =
      WindowOrder::Create({.tokens = train.tokens(),
                           .sequence = spec.shape.sequence,
                           .global_batch_sequences = spec.shape.global_batch_sequences,
                           .order = spec.data_order,
                           .seed = spec.seed});
  if (!order.ok()) return Annotate(order.status(), absl::StrFormat("data.train %s", spec.train_file));
  std::unique_ptr<FileWindowSource> source(
      new FileWindowSource(std::move(train), *std::move(order), spec.shape));
  if (!spec.validation_file.empty()) {
    ASSIGN_OR_RETURN(TokenFile validation, OpenAs("data.validation", spec.validation_file, spec));
    source->validation_windows_ = WindowCount(validation.tokens(), spec.shape.sequence);
    if (source->validation_windows_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("data.validation %s has %d tokens; a window needs batch.sequence_length + 1 = %d",
                          spec.validation_file, validation.tokens(), spec.shape.sequence + 1));
    }
    source->validation_ = std::move(validation);
  }
  RETURN_IF_ERROR(AddFingerprint("train", spec.train_file, source->data_fingerprint_));
  if (source->validation_) {
    source->data_fingerprint_ += "; ";
    RETURN_IF_ERROR(AddFingerprint("validation", spec.validation_file, source->data_fingerprint_));
  }
  return source;
}

absl::Status FileWindowSource::Read(Purpose purpose, int64_t step, int index, absl::Span<int32_t> ids) {
  if (purpose == Purpose::kTrain) return train_.Read(order_.WindowOf(step, index) * shape_.sequence, ids);
  if (!validation_) return absl::InvalidArgumentError("the job has no data.validation");
  const int64_t window = ValidationWindow(validation_windows_, shape_.global_batch_sequences, step, index);
  return validation_->Read(window * shape_.sequence, ids);
}

}  // namespace medley
