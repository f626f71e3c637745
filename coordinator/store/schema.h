#pragma once
#include <cstdint>

#include "absl/status/status.h"
#include "coordinator/store/database.h"

namespace medley {

// The version of the tables that this version of the program reads and writes; README.md lists them. It grows
// by one with every change.
inline constexpr int64_t kSchemaVersion = 7;

// Makes the tables in an empty database, brings those of an older version up to date in one transaction, and
// leaves those of a current one as they are. Reads the whole file to see that it is whole, and turns its
// write-ahead log on.
//
// Errors, beside Database's; each names the file:
//   FailedPrecondition   it was written by a newer version, or by another program; nothing is changed.
//   DataLoss             it is damaged; with what SQLite found.
absl::Status PrepareSchema(Database& database);

// Whether PrepareSchema could make use of the file; changes nothing. FailedPrecondition, too: there is nothing in it.
absl::Status CheckSchema(Database& database);

// Leaves nothing of tokens by which agents join in a file, which may be an older version's.
absl::Status ForgetJoinTokens(Database& database);

}  // namespace medley
