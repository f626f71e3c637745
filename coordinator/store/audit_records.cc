// Who did what.
#include <algorithm>

#include "coordinator/store/message_rows.h"
#include "coordinator/store/store.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status Store::AppendAudit(const v1::AuditRecord& record) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  v1::AuditRecord numbered = record;
  ASSIGN_OR_RETURN(const int64_t number, NextOf("audit"));
  numbered.set_number(static_cast<uint64_t>(number));
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(numbered));
  RETURN_IF_ERROR(database_->Run("INSERT INTO audit (number, message) VALUES (?, ?)", number, Blob{bytes}));
  return transaction.Commit();
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
