#pragma once
#include <string>

#include "absl/status/status.h"

namespace medley {

// Puts a file that Store::BackUp wrote in the place of a store: `directory`/medley.db, made with its parents if it is missing. What the
// file has is looked at first, all of it. Where root calls, what is written belongs to the directory's owner, whose service it is.
// FailedPrecondition: there is a store in the directory already; a coordinator has it open; the file is of a newer version, or another
// program's. DataLoss: it is damaged. Otherwise those of FileReader, of the file, and of FileError, of what is written. Nothing is changed
// then.
absl::Status RestoreStore(const std::string& file, const std::string& directory);

}  // namespace medley
