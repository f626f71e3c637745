// Who did what.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/store/message_rows.h"
#include "coordinator/store/store.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status Store::AddToAudit(v1::AuditRecord record) {
  ASSIGN_OR_RETURN(const int64_t number, NextOf("audit"));
  record.set_number(static_cast<uint64_t>(number));
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(record));
  return database_->Run("INSERT INTO audit (number, message) VALUES (?, ?)", number, Blob{bytes});
}

absl::Status Store::AppendAudit(const v1::AuditRecord& record) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  RETURN_IF_ERROR(AddToAudit(record));
  return transaction.Commit();
}

absl::StatusOr<int64_t> Store::DropAudit(double before_seconds, double now_seconds) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  int64_t dropped = 0, last = 0;
  {
    ASSIGN_OR_RETURN(Statement rows, database_->Query("SELECT message, number FROM audit ORDER BY number"));
    while (true) {
      ASSIGN_OR_RETURN(const bool row, rows.Step());
      if (!row) break;
      ASSIGN_OR_RETURN(const v1::AuditRecord record, FromRow<v1::AuditRecord>(*database_, rows));
      if (record.at_seconds() >= before_seconds) break;
      last = rows.Integer(1);
      ++dropped;
    }
  }
  if (dropped == 0) return 0;
  // The trigger lets no other rows go.
  RETURN_IF_ERROR(database_->Run("REPLACE INTO counters (name, value) VALUES ('audit dropped', ?)", last));
  RETURN_IF_ERROR(database_->Run("DELETE FROM audit WHERE number <= ?", last));
  v1::AuditRecord told;
  told.set_at_seconds(now_seconds);
  told.set_identity("medley-coordinator");
  told.set_method("DropAudit");
  told.set_result(absl::StatusCodeToString(absl::StatusCode::kOk));
  told.set_message(
      absl::StrCat(dropped, " up to number ", last, ", all from before ",
                   absl::FormatTime(absl::RFC3339_sec, absl::UnixEpoch() + absl::Seconds(before_seconds),
                                    absl::UTCTimeZone())));
  RETURN_IF_ERROR(AddToAudit(std::move(told)));
  RETURN_IF_ERROR(transaction.Commit());
  return dropped;
}

absl::StatusOr<std::vector<v1::AuditRecord>> Store::ListAudit(int limit) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(std::vector<v1::AuditRecord> newest_first,
                   AllOf<v1::AuditRecord>(
                       *database_, database_->Query("SELECT message FROM audit ORDER BY number DESC LIMIT ?",
                                                    std::max(limit, 0))));
  std::reverse(newest_first.begin(), newest_first.end());
  return newest_first;
}

}  // namespace medley
