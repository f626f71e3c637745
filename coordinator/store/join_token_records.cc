// Tokens by which agents join.
#include "coordinator/store/message_rows.h"
#include "coordinator/store/store.h"
#include "runtime/base/status_macros.h"

namespace medley {

absl::Status Store::InsertJoinToken(const v1::JoinTokenRecord& record, double forget_before_seconds) {
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(record));
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(*database_));
  RETURN_IF_ERROR(database_->Run("DELETE FROM join_tokens WHERE expires_at_seconds < ?",
                                 static_cast<int64_t>(forget_before_seconds)));
  RETURN_IF_ERROR(database_->Run("INSERT INTO join_tokens (id, expires_at_seconds, message) VALUES (?, ?, ?)",
                                 record.token().id(),
                                 static_cast<int64_t>(record.token().expires_at_seconds()), Blob{bytes}));
  return transaction.Commit();
}

absl::Status Store::ChangeJoinToken(const std::string& id,
                                    absl::FunctionRef<absl::Status(v1::JoinTokenRecord&)> change) {
  const Operation operation(*this, __func__);
  ASSIGN_OR_RETURN(std::optional<v1::JoinTokenRecord> record,
                   FirstOf<v1::JoinTokenRecord>(
                       *database_, database_->Query("SELECT message FROM join_tokens WHERE id = ?", id)));
  if (!record.has_value()) return absl::NotFoundError(absl::StrCat("no join token \"", id, "\""));
  RETURN_IF_ERROR(change(*record));
  ASSIGN_OR_RETURN(const std::string bytes, ToRow(*record));
  return database_->Run("UPDATE join_tokens SET message = ? WHERE id = ?", Blob{bytes}, id);
}

absl::StatusOr<std::vector<v1::JoinTokenRecord>> Store::ListJoinTokens() {
  const Operation operation(*this, __func__);
  return AllOf<v1::JoinTokenRecord>(*database_,
                                    database_->Query("SELECT message FROM join_tokens ORDER BY rowid DESC"));
}

}  // namespace medley
