// What was measured of devices and links, and how predictions by it came out.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/store/message_rows.h"
#include "coordinator/store/store.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"

namespace medley {
namespace {

constexpr size_t kMaxSizes = 64;          // DeviceProfile::times takes no more
constexpr int kPredictionOutcomes = 100;  // older ones are of another cluster and another predictor

absl::StatusOr<std::optional<v1::DeviceProfile>> ReadProfile(Database& database,
                                                             const std::string& device_kind,
                                                             const std::string& shape) {
  return FirstOf<v1::DeviceProfile>(
      database, database.Query("SELECT message FROM device_profiles WHERE device_kind = ? AND shape = ?",
                               device_kind, shape));
}

// `newer` with the times of those sizes that only `older` has; ascending by size.
v1::DeviceProfile Merged(const v1::DeviceProfile& older, const v1::DeviceProfile& newer) {
  std::map<uint32_t, v1::BlockPassTimes> times;
  for (const v1::BlockPassTimes& time : newer.times()) times[time.micro_batch_sequences()] = time;
  bool kept = false;
  for (const v1::BlockPassTimes& time : older.times()) {
    if (times.size() >= kMaxSizes) break;
    kept |= times.emplace(time.micro_batch_sequences(), time).second;
  }
  v1::DeviceProfile merged = newer;
  merged.clear_times();
  for (const auto& [size, time] : times) *merged.add_times() = time;
  if (kept) {
    // Measured for other sizes, which may need more.
    merged.set_workspace_bytes(std::max(older.workspace_bytes(), newer.workspace_bytes()));
    merged.set_copy_bytes_per_parameter(
        std::max(older.copy_bytes_per_parameter(), newer.copy_bytes_per_parameter()));
  }
  return merged;
}

std::pair<std::string, std::string> EndsOf(const std::string& a, const std::string& b) {
  return std::minmax(a, b);
}

// What sets links with protected messages apart from the plain one of the same ends: no device's name has a space.
std::string With(v1::MessageProtection protection) {
  switch (protection) {
    case v1::MESSAGE_PROTECTION_CHECKSUM:
      return " checksum";
    case v1::MESSAGE_PROTECTION_ENCRYPTION:
      return " encryption";
    default:
      return "";
  }
}

absl::Status WriteProfile(Database& database, const v1::DeviceProfile& profile) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(profile));
  return database.Run("REPLACE INTO device_profiles (device_kind, shape, message) VALUES (?, ?, ?)",
                      profile.device_kind(), profile.shape(), Blob{bytes});
}

absl::Status WriteHostSlowdown(Database& database, const v1::HostSlowdown& slowdown) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(slowdown));
  return database.Run("REPLACE INTO host_slowdowns (host, shape, message) VALUES (?, ?, ?)", slowdown.host(),
                      slowdown.shape(), Blob{bytes});
}

// In the place of what was learnt of the same times before. `of`: a DeviceProfile or a SharedSlowdown.
template <typename Message>
void SetCorrection(const v1::ProfileCorrection& correction, Message& of) {
  if (correction.times() == v1::TIME_CLASS_UNSPECIFIED) {
    *of.mutable_correction() = correction;
    return;
  }
  for (v1::ProfileCorrection& other : *of.mutable_other_corrections()) {
    if (other.times() != correction.times()) continue;
    other = correction;
    return;
  }
  *of.add_other_corrections() = correction;
}

// A device that was slow among its kind may be left out of plans, and then nobody sees that it is not any more.
constexpr double kDeviceIsBelievedSeconds = 24 * 3600;

void ForgetDevices(v1::DeviceProfile& profile, double now_seconds, const std::string& device = "") {
  auto& devices = *profile.mutable_devices();
  devices.erase(std::remove_if(devices.begin(), devices.end(),
                               [&](const v1::ProfileCorrection& of) {
                                 return of.device() == device ||
                                        now_seconds - of.at_seconds() > kDeviceIsBelievedSeconds;
                               }),
                devices.end());
}

// In the place of what was learnt of the same device before; as fast as the others of its kind there is nothing to keep.
void SetDevice(const v1::ProfileCorrection& correction, v1::DeviceProfile& profile) {
  ForgetDevices(profile, UnixSecondsNow(), correction.device());
  if (correction.factor() != 1) *profile.add_devices() = correction;
}

absl::Status NotMeasured(const std::string& device_kind, const std::string& shape) {
  return absl::NotFoundError(
      absl::StrCat("nothing was measured for device kind \"", device_kind, "\" and shape \"", shape, "\""));
}

}  // namespace

absl::Status Store::PutProfile(const v1::DeviceProfile& profile) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  ASSIGN_OR_RETURN(const std::optional<v1::DeviceProfile> older,
                   ReadProfile(*database_, profile.device_kind(), profile.shape()));
  RETURN_IF_ERROR(WriteProfile(*database_, Merged(older.value_or(v1::DeviceProfile()), profile)));
  return transaction.Commit();
}

absl::StatusOr<bool> Store::PutCorrection(const std::string& device_kind, const std::string& shape,
                                          double measured_at_seconds,
                                          const v1::ProfileCorrection& correction) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  ASSIGN_OR_RETURN(std::optional<v1::DeviceProfile> profile, ReadProfile(*database_, device_kind, shape));
  if (!profile.has_value() || profile->measured_at_seconds() != measured_at_seconds) return false;
  if (correction.device().empty()) {
    SetCorrection(correction, *profile);
  } else {
    SetDevice(correction, *profile);
  }
  RETURN_IF_ERROR(WriteProfile(*database_, *profile));
  RETURN_IF_ERROR(transaction.Commit());
  return true;
}

absl::StatusOr<bool> Store::PutSlowdownCorrection(const std::string& host, const std::string& shape,
                                                  const std::string& device_kind, double measured_at_seconds,
                                                  const v1::ProfileCorrection& correction) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  ASSIGN_OR_RETURN(
      std::optional<v1::HostSlowdown> slowdown,
      FirstOf<v1::HostSlowdown>(
          *database_,
          database_->Query("SELECT message FROM host_slowdowns WHERE host = ? AND shape = ?", host, shape)));
  if (!slowdown.has_value() || slowdown->measured_at_seconds() != measured_at_seconds) return false;
  for (v1::SharedSlowdown& shared : *slowdown->mutable_devices()) {
    if (shared.device_kind() == device_kind) SetCorrection(correction, shared);
  }
  RETURN_IF_ERROR(WriteHostSlowdown(*database_, *slowdown));
  RETURN_IF_ERROR(transaction.Commit());
  return true;
}

absl::Status Store::PutPredictionOutcome(const v1::PredictionOutcome& outcome) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(outcome));
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  RETURN_IF_ERROR(database_->Run("REPLACE INTO prediction_outcomes (launch, message) VALUES (?, ?)",
                                 static_cast<int64_t>(outcome.launch()), Blob{bytes}));
  RETURN_IF_ERROR(
      database_->Run("DELETE FROM prediction_outcomes WHERE launch NOT IN "
                     "(SELECT launch FROM prediction_outcomes ORDER BY launch DESC LIMIT ?)",
                     kPredictionOutcomes));
  return transaction.Commit();
}

absl::StatusOr<std::vector<v1::PredictionOutcome>> Store::ListPredictionOutcomes() {
  const Operation operation(*this, __func__);
  return AllOf<v1::PredictionOutcome>(
      *database_, database_->Query("SELECT message FROM prediction_outcomes ORDER BY launch"));
}

absl::Status Store::PutHostSlowdown(const v1::HostSlowdown& slowdown) {
  const Operation operation(*this, __func__);
  return WriteHostSlowdown(*database_, slowdown);
}

absl::StatusOr<std::vector<v1::HostSlowdown>> Store::ListHostSlowdowns() {
  const Operation operation(*this, __func__);
  return AllOf<v1::HostSlowdown>(*database_,
                                 database_->Query("SELECT message FROM host_slowdowns ORDER BY host, shape"));
}

absl::StatusOr<v1::DeviceProfile> Store::FindProfile(const std::string& device_kind, const std::string& shape,
                                                     absl::Span<const uint32_t> micro_batch_sizes) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(std::optional<v1::DeviceProfile> profile, ReadProfile(*database_, device_kind, shape));
  if (!profile.has_value()) return NotMeasured(device_kind, shape);
  std::set<uint32_t> missing(micro_batch_sizes.begin(), micro_batch_sizes.end());
  for (const v1::BlockPassTimes& time : profile->times()) missing.erase(time.micro_batch_sequences());
  if (missing.empty()) return *std::move(profile);
  return absl::NotFoundError(absl::StrCat(NotMeasured(device_kind, shape).message(),
                                          " with micro-batches of ", absl::StrJoin(missing, ", ")));
}

absl::StatusOr<std::vector<v1::DeviceProfile>> Store::ListProfiles() {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(
      std::vector<v1::DeviceProfile> profiles,
      AllOf<v1::DeviceProfile>(
          *database_, database_->Query("SELECT message FROM device_profiles ORDER BY device_kind, shape")));
  const double now_seconds = UnixSecondsNow();
  for (v1::DeviceProfile& profile : profiles) ForgetDevices(profile, now_seconds);
  return profiles;
}

absl::Status Store::PutLink(const v1::LinkProfile& link) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(link));
  const auto [first, second] = EndsOf(link.a(), link.b());
  const Operation operation(*this, __func__);
  return database_->Run("REPLACE INTO link_profiles (a, b, message) VALUES (?, ?, ?)", first,
                        second + With(link.message_protection()), Blob{bytes});
}

absl::StatusOr<std::vector<v1::LinkProfile>> Store::ListLinks() {
  const Operation operation(*this, __func__);
  return AllOf<v1::LinkProfile>(*database_,
                                database_->Query("SELECT message FROM link_profiles ORDER BY a, b"));
}

}  // namespace medley
