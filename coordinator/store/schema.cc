#include "coordinator/store/schema.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// "MDLY" in the file's header; `file` and other programs can tell.
constexpr int64_t kApplicationId = 0x4d444c59;

// Messages are kept whole, as bytes: a field that is added to one needs no new schema, and what is not a
// number (a loss that blew up) survives, which a REAL column would turn into NULL.
constexpr const char* kTables[] = {
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE jobs (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, request_id TEXT UNIQUE, "
    "ended INTEGER NOT NULL, message BLOB NOT NULL)",
    "CREATE INDEX unfinished_jobs ON jobs (number) WHERE ended = 0",
    "CREATE TABLE steps (job INTEGER, step INTEGER, message BLOB NOT NULL, PRIMARY KEY (job, step)) WITHOUT "
    "ROWID",
    "CREATE TABLE validations (job INTEGER, step INTEGER, message BLOB NOT NULL, PRIMARY KEY (job, step)) "
    "WITHOUT ROWID",
    // With rowids: without, SQLite gives every line of more than a quarter of a page a page of its own.
    "CREATE TABLE logs (job INTEGER, number INTEGER, message BLOB NOT NULL, PRIMARY KEY (job, number))",
    "CREATE TABLE traces (job INTEGER, step INTEGER, message BLOB NOT NULL, PRIMARY KEY (job, step))",
    "CREATE TABLE plan_grounds (job INTEGER PRIMARY KEY, message BLOB NOT NULL)",
    "CREATE TABLE device_profiles (device_kind TEXT, shape TEXT, message BLOB NOT NULL, "
    "PRIMARY KEY (device_kind, shape))",
    "CREATE TABLE link_profiles (a TEXT, b TEXT, message BLOB NOT NULL, PRIMARY KEY (a, b))",
    "CREATE TABLE host_slowdowns (host TEXT, shape TEXT, message BLOB NOT NULL, PRIMARY KEY (host, shape))",
    "CREATE TABLE nodes (name TEXT PRIMARY KEY) WITHOUT ROWID",
};

// From version 3; a new file has it, too.
constexpr const char* kToVersion4[] = {
    "CREATE TABLE drained_nodes (name TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE audit (number INTEGER PRIMARY KEY, message BLOB NOT NULL)",
    // What was written down stays as it is.
    "CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is "
    "appended to'); END",
    "CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is "
    "appended to'); END",
};

// From version 4; a new file has it, too.
constexpr const char* kToVersion5[] = {
    "CREATE TABLE join_tokens (id TEXT PRIMARY KEY, expires_at_seconds INTEGER NOT NULL, message BLOB NOT "
    "NULL)",
};

// From version 5; a new file has it, too.
constexpr const char* kToVersion6[] = {
    "CREATE TABLE prediction_outcomes (launch INTEGER PRIMARY KEY, message BLOB NOT NULL)",
};

// From version 6; a new file has it, too.
constexpr const char* kToVersion7[] = {
    "ALTER TABLE nodes ADD COLUMN lost_at_seconds INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE nodes ADD COLUMN message BLOB NOT NULL DEFAULT x''",
    // What is older than its limit goes, once the store has noted up to where.
    "DROP TRIGGER audit_is_not_shortened",
    "CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit WHEN OLD.number > coalesce((SELECT value "
    "FROM "
    "counters WHERE name = 'audit dropped'), 0) BEGIN SELECT RAISE(ABORT, 'the audit is appended to'); END",
};

// From version 1.
constexpr const char* kToVersion2[] = {
    "UPDATE counters SET name = 'attempts' WHERE name = 'epochs'",
    "DROP TABLE traces",  // the next traced step brings another
    "CREATE TABLE traces (job INTEGER, step INTEGER, message BLOB NOT NULL, PRIMARY KEY (job, step))",
    "CREATE TABLE host_slowdowns (host TEXT, shape TEXT, message BLOB NOT NULL, PRIMARY KEY (host, shape))",
    "CREATE TABLE nodes (name TEXT PRIMARY KEY) WITHOUT ROWID",
};

// From version 2.
constexpr const char* kToVersion3[] = {
    "CREATE TABLE plan_grounds (job INTEGER PRIMARY KEY, message BLOB NOT NULL)",
};

absl::StatusOr<int64_t> ReadInteger(Database& database, const char* sql) {
  ASSIGN_OR_RETURN(Statement statement, database.Query(sql));
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Integer(0) : 0;
}

absl::Status CheckWhole(Database& database) {
  ASSIGN_OR_RETURN(Statement check, database.Query("PRAGMA quick_check(1)"));
  ASSIGN_OR_RETURN(const bool row, check.Step());
  const std::string finding = row ? check.Binary(0) : "no answer";
  if (finding == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(database.path(), " is damaged: ", finding));
}

absl::Status MakeTables(Database& database) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database));
  for (const char* table : kTables) RETURN_IF_ERROR(database.Run(table));
  for (const char* table : kToVersion4) RETURN_IF_ERROR(database.Run(table));
  for (const char* table : kToVersion5) RETURN_IF_ERROR(database.Run(table));
  for (const char* table : kToVersion6) RETURN_IF_ERROR(database.Run(table));
  for (const char* change : kToVersion7) RETURN_IF_ERROR(database.Run(change));
  RETURN_IF_ERROR(database.Run(absl::StrCat("PRAGMA application_id = ", kApplicationId).c_str()));
  RETURN_IF_ERROR(database.Run(absl::StrCat("PRAGMA user_version = ", kSchemaVersion).c_str()));
  return transaction.Commit();
}

// Reads only: a file that is not ours stays as it is.
absl::Status CheckOrigin(Database& database) {
  ASSIGN_OR_RETURN(const int64_t application, ReadInteger(database, "PRAGMA application_id"));
  if (application != kApplicationId) {
    return absl::FailedPreconditionError(absl::StrCat(database.path(), " is another program's database"));
  }
  ASSIGN_OR_RETURN(const int64_t version, ReadInteger(database, "PRAGMA user_version"));
  if (version < 1 || version > kSchemaVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(database.path(), " has schema version ", version, "; this program knows versions up to ",
                     kSchemaVersion, version > kSchemaVersion ? ": a newer one wrote it" : ""));
  }
  return absl::OkStatus();
}

absl::Status BringUpToDate(Database& database) {
  ASSIGN_OR_RETURN(const int64_t version, ReadInteger(database, "PRAGMA user_version"));
  if (version == kSchemaVersion) return absl::OkStatus();
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(database));
  if (version < 2) {
    for (const char* change : kToVersion2) RETURN_IF_ERROR(database.Run(change));
  }
  if (version < 3) {
    for (const char* change : kToVersion3) RETURN_IF_ERROR(database.Run(change));
  }
  if (version < 4) {
    for (const char* change : kToVersion4) RETURN_IF_ERROR(database.Run(change));
  }
  if (version < 5) {
    for (const char* change : kToVersion5) RETURN_IF_ERROR(database.Run(change));
  }
  if (version < 6) {
    for (const char* change : kToVersion6) RETURN_IF_ERROR(database.Run(change));
  }
  for (const char* change : kToVersion7) RETURN_IF_ERROR(database.Run(change));
  RETURN_IF_ERROR(database.Run(absl::StrCat("PRAGMA user_version = ", kSchemaVersion).c_str()));
  return transaction.Commit();
}

}  // namespace

absl::Status CheckSchema(Database& database) {
  RETURN_IF_ERROR(CheckOrigin(database));
  return CheckWhole(database);
}

absl::Status ForgetJoinTokens(Database& database) {
  ASSIGN_OR_RETURN(const int64_t tables,
                   ReadInteger(database, "SELECT count(*) FROM sqlite_schema WHERE name = 'join_tokens'"));
  return tables > 0 ? database.Run("DELETE FROM join_tokens") : absl::OkStatus();
}

absl::Status PrepareSchema(Database& database) {
  ASSIGN_OR_RETURN(const int64_t tables, ReadInteger(database, "SELECT count(*) FROM sqlite_schema"));
  if (tables > 0) {
    RETURN_IF_ERROR(CheckSchema(database));
  }
  RETURN_IF_ERROR(database.UseWriteAheadLog());
  return tables > 0 ? BringUpToDate(database) : MakeTables(database);
}

}  // namespace medley
