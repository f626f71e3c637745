#include "coordinator/store/database.h"

#include <sqlite3.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr int kPageBytes = 4096;
constexpr int kBusyTimeoutMilliseconds = 5000;  // a person looks at the file with another program

absl::StatusCode CodeOf(int sqlite_code, int system_error) {
  switch (sqlite_code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return absl::StatusCode::kFailedPrecondition;
    case SQLITE_IOERR:
      // SQLite calls only a failed write "full"; its shared memory or a sync can meet a full disk too.
      if (system_error == ENOSPC || system_error == EDQUOT) return absl::StatusCode::kResourceExhausted;
      return absl::StatusCode::kUnavailable;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::StatusCode::kUnavailable;
    case SQLITE_TOOBIG:
      return absl::StatusCode::kInvalidArgument;
    case SQLITE_CONSTRAINT:
      return absl::StatusCode::kAlreadyExists;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Neither a lock that another program has for long nor a want of memory says anything of the disk.
bool IsOfTheFile(int sqlite_code, absl::StatusCode kind) {
  for (const int other : {SQLITE_BUSY, SQLITE_LOCKED, SQLITE_NOMEM})
    if ((sqlite_code & 0xff) == other) return false;
  if (sqlite_code == SQLITE_IOERR_NOMEM) return false;
  return kind == absl::StatusCode::kResourceExhausted || kind == absl::StatusCode::kDataLoss ||
         kind == absl::StatusCode::kFailedPrecondition || kind == absl::StatusCode::kUnavailable;
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      bound_(std::move(other.bound_)) {}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Bound(int code) {
  if (code != SQLITE_OK && bound_.ok()) bound_ = database_->Failure(code);
}
void Statement::BindAt(int index, int64_t value) { Bound(sqlite3_bind_int64(statement_, index, value)); }
void Statement::BindAt(int index, const std::string& text) {
  Bound(sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}
void Statement::BindAt(int index, const Blob& blob) {
  // A null pointer would bind NULL; an empty string's data is never null.
  Bound(sqlite3_bind_blob64(statement_, index, blob.bytes.data(), blob.bytes.size(), SQLITE_TRANSIENT));
}
void Statement::BindAt(int index, Null null) { Bound(sqlite3_bind_null(statement_, index)); }

absl::StatusOr<bool> Statement::Step() {
  RETURN_IF_ERROR(bound_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Failure(code);
}

absl::Status Statement::Finish() {
  while (true) {
    ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

int64_t Statement::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string Statement::Binary(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, Bytes max_size) {
  sqlite3* connection = nullptr;
  // NOMUTEX: whoever shares a Database locks around it.
  const int code = sqlite3_open_v2(path.c_str(), &connection,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> database(new Database(path, connection));
  if (code != SQLITE_OK) return database->Failure(code);
  sqlite3_extended_result_codes(connection, 1);
  sqlite3_busy_timeout(connection, kBusyTimeoutMilliseconds);
  if (max_size.value > 0) {
    const int64_t pages = std::max<int64_t>(1, max_size.value / kPageBytes);
    RETURN_IF_ERROR(database->Run(absl::StrCat("PRAGMA max_page_count = ", pages).c_str()));
  }
  return database;
}

absl::Status Database::UseWriteAheadLog() {
  ASSIGN_OR_RETURN(Statement mode, Query("PRAGMA journal_mode = WAL"));
  ASSIGN_OR_RETURN(const bool row, mode.Step());
  if (!row || mode.Binary(0) != "wal") {
    return absl::FailedPreconditionError(absl::StrCat(path_, ": its file system allows no write-ahead log"));
  }
  RETURN_IF_ERROR(mode.Finish());
  return Run("PRAGMA synchronous = FULL");
}

Database::~Database() { sqlite3_close(connection_); }

absl::StatusOr<Statement> Database::Prepare(const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(connection_, sql, -1, &statement, nullptr);
  if (code != SQLITE_OK) return Failure(code);
  return Statement(*this, statement);
}

absl::Status Database::Failure(int code) {
  // Null if there was no memory for a connection.
  const int system_error = connection_ == nullptr ? 0 : sqlite3_system_errno(connection_);
  const char* words = connection_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(connection_);
  const absl::StatusCode kind = CodeOf(code, system_error);
  if (IsOfTheFile(code, kind)) ++failures_;
  return absl::Status(kind, absl::StrCat(path_, ": ", words, " (SQLite code ", code, ")"));
}

absl::StatusOr<Transaction> Transaction::Begin(Database& database) {
  RETURN_IF_ERROR(database.Run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

absl::Status Transaction::Commit() {
  RETURN_IF_ERROR(database_->Run("COMMIT"));
  database_ = nullptr;
  return absl::OkStatus();
}

Transaction::~Transaction() {
  // Some failures have undone everything already; then there is no transaction, and that is said in vain.
  if (database_ != nullptr) (void)database_->Run("ROLLBACK");
}

}  // namespace medley
