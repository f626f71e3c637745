#include "runtime/engine/align/device_record.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "runtime/base/files/strict_json.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

using nlohmann::json;

// Every count under its name.
template <typename Counts, typename Visit>
void VisitCounts(Counts& counts, Visit visit) {
  visit("calls", counts.calls);
  visit("captured", counts.captured);
  visit("captured_bytes", counts.captured_bytes.value);
  visit("shortened", counts.shortened);
  visit("repeats", counts.repeats);
  visit("over_calls_of_a_shape", counts.over_calls_of_a_shape);
  visit("over_one_call", counts.over_one_call);
  visit("over_steps", counts.over_steps);
  visit("impossible", counts.impossible);
}

json EncodeStatus(const absl::Status& status) {
  return {{"code", static_cast<int>(status.code())}, {"message", std::string(status.message())}};
}

absl::Status DecodeStatus(const json& record, const std::string& member, absl::Status& to) {
  ASSIGN_OR_RETURN(const json* entry, Member(record, member));
  ASSIGN_OR_RETURN(const int64_t code, IntegerMember(*entry, "code", {0, 16}));
  ASSIGN_OR_RETURN(const std::string message, StringMember(*entry, "message"));
  to = absl::Status(static_cast<absl::StatusCode>(code), message);
  return absl::OkStatus();
}

absl::Status DecodeCounts(const json& record, CaptureCounts& counts) {
  ASSIGN_OR_RETURN(const json* entry, Member(record, "capture"));
  absl::Status status;
  VisitCounts(counts, [&](const char* name, int64_t& to) {
    const absl::StatusOr<int64_t> value =
        IntegerMember(*entry, name, {0, std::numeric_limits<int64_t>::max()});
    if (value.ok()) {
      to = *value;
    } else {
      status.Update(value.status());
    }
  });
  return Annotate(status, "capture");
}

}  // namespace

std::string EncodeDeviceRecord(const DeviceRecord& record) {
  json capture;
  VisitCounts(record.capture, [&](const char* name, int64_t value) { capture[name] = value; });
  const json encoded = {{"device", record.device},
                        {"name", record.name},
                        {"computes_in", std::string(NameOf(record.computes_in))},
                        {"losses", record.losses},
                        {"capture", std::move(capture)},
                        {"status", EncodeStatus(record.status)},
                        {"training", EncodeStatus(record.training)}};
  return encoded.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) + "\n";
}

absl::StatusOr<DeviceRecord> DecodeDeviceRecord(const std::string& text) {
  ASSIGN_OR_RETURN(const json encoded, ParseStrictJson(text));
  DeviceRecord record;
  ASSIGN_OR_RETURN(record.device, StringMember(encoded, "device"));
  ASSIGN_OR_RETURN(record.name, StringMember(encoded, "name"));
  ASSIGN_OR_RETURN(const std::string precision, StringMember(encoded, "computes_in"));
  const auto known = std::find_if(kAllPrecisions.begin(), kAllPrecisions.end(),
                                  [&](Precision each) { return NameOf(each) == precision; });
  if (known == kAllPrecisions.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"computes_in\" is \"", precision, "\", must be f32, bf16 or f16"));
  }
  record.computes_in = *known;
  ASSIGN_OR_RETURN(const json* losses, Member(encoded, "losses"));
  if (!losses->is_array()) return absl::InvalidArgumentError("\"losses\" is no list");
  for (const json& loss : *losses) {
    if (!loss.is_number()) return absl::InvalidArgumentError(absl::StrCat("\"losses\" has ", Excerpt(loss)));
    record.losses.push_back(loss.get<double>());
  }
  RETURN_IF_ERROR(DecodeCounts(encoded, record.capture));
  RETURN_IF_ERROR(DecodeStatus(encoded, "status", record.status));
  RETURN_IF_ERROR(DecodeStatus(encoded, "training", record.training));
  return record;
}

}  // namespace medley
