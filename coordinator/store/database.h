#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/bytes.h"

struct sqlite3;
struct sqlite3_stmt;

// SQLite as values and statuses; nothing else knows its codes or its functions.
//
// Errors, of every function that returns a status; each names the file and SQLite's own words:
//   ResourceExhausted    the disk or the database's size limit is full, or memory is.
//   DataLoss             the file is damaged, or no SQLite database.
//   FailedPrecondition   the file cannot be opened or written to.
//   Unavailable          another program has the file locked, or the disk fails to read or write.
//   InvalidArgument      a value is larger than SQLite can store (1 GB).
//   AlreadyExists        a constraint of the schema is violated.
//   Internal             anything else: a bug in the SQL.
namespace medley {

// Bytes rather than text.
struct Blob {
  const std::string& bytes;
};
struct Null {};

// A prepared statement with its values bound. Lives no longer than its Database.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;

  // Goes to the next row, or says that there is none.
  absl::StatusOr<bool> Step();

  // Goes to the end.
  absl::Status Finish();

  // The value that the current row has in `column`; columns count from 0.
  int64_t Integer(int column) const;
  std::string Binary(int column) const;

 private:
  friend class Database;
  Statement(class Database& database, sqlite3_stmt* statement)
      : database_(&database), statement_(statement) {}
  void BindAt(int index, int64_t value);
  void BindAt(int index, uint32_t value) { BindAt(index, static_cast<int64_t>(value)); }
  void BindAt(int index, int value) { BindAt(index, static_cast<int64_t>(value)); }
  void BindAt(int index, const std::string& text);
  void BindAt(int index, const Blob& blob);
  void BindAt(int index, Null null);
  void Bound(int code);

  class Database* database_;
  sqlite3_stmt* statement_;
  absl::Status bound_;  // the first failure to bind; Step returns it
};

// One connection to one file. Not thread-safe.
class Database {
 public:
  // Opens `path`, made if it is missing. `max_size`: the file's; 0: no limit.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, Bytes max_size);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // From here on a committed transaction survives a power cut (write-ahead log, synced at every commit), and
  // readers in other processes are not in the way. Writes to the file's header.
  absl::Status UseWriteAheadLog();

  // `sql` is one statement; `values` take the places of its "?" in order. Text and blobs are copied.
  template <typename... Values>
  absl::StatusOr<Statement> Query(const char* sql, const Values&... values) {
    absl::StatusOr<Statement> statement = Prepare(sql);
    if (!statement.ok()) return statement;
    int index = 0;
    (statement->BindAt(++index, values), ...);
    return statement;
  }

  // A statement that has no rows to give, from start to end.
  template <typename... Values>
  absl::Status Run(const char* sql, const Values&... values) {
    absl::StatusOr<Statement> statement = Query(sql, values...);
    if (!statement.ok()) return statement.status();
    return statement->Finish();
  }

  const std::string& path() const { return path_; }

  // How many statements ended with ResourceExhausted, DataLoss, FailedPrecondition or Unavailable by the file's fault: not the caller's, nor
  // another program's that has it locked, nor for want of memory.
  uint64_t failures() const { return failures_; }

 private:
  friend class Statement;
  Database(std::string path, sqlite3* connection) : path_(std::move(path)), connection_(connection) {}
  absl::StatusOr<Statement> Prepare(const char* sql);
  absl::Status Failure(int code);

  std::string path_;
  sqlite3* connection_;
  uint64_t failures_ = 0;
};

// All or nothing: what was written since Begin is undone unless Commit returned OK. After that it is on disk.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(Transaction&&) = delete;

  absl::Status Commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;  // null: nothing left to undo
};

}  // namespace medley
