#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "coordinator/store/database.h"
#include "runtime/base/status_macros.h"

// Messages as the first column of rows.
namespace medley {

// InvalidArgument: a text in `message` is not UTF-8, so that it could not be read back.
template <typename Message>
absl::StatusOr<std::string> ToRow(const Message& message) {
  std::string bytes = message.SerializeAsString();
  if (Message().ParseFromString(bytes)) return bytes;
  return absl::InvalidArgumentError(absl::StrCat("a text in ", message.GetTypeName(), " is not UTF-8"));
}

// DataLoss: the row does not hold a Message.
template <typename Message>
absl::StatusOr<Message> FromRow(const Database& database, const Statement& row) {
  Message message;
  if (message.ParseFromString(row.Binary(0))) return message;
  return absl::DataLossError(
      absl::StrCat(database.path(), " is damaged: a ", message.GetTypeName(), " cannot be read"));
}

template <typename Message>
absl::StatusOr<std::vector<Message>> AllOf(const Database& database, absl::StatusOr<Statement> rows) {
  RETURN_IF_ERROR(rows.status());
  std::vector<Message> messages;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows->Step());
    if (!row) return messages;
    ASSIGN_OR_RETURN(Message message, FromRow<Message>(database, *rows));
    messages.push_back(std::move(message));
  }
}

// Nothing if there is no row.
template <typename Message>
absl::StatusOr<std::optional<Message>> FirstOf(const Database& database, absl::StatusOr<Statement> rows) {
  RETURN_IF_ERROR(rows.status());
  ASSIGN_OR_RETURN(const bool row, rows->Step());
  if (!row) return std::optional<Message>();
  ASSIGN_OR_RETURN(Message message, FromRow<Message>(database, *rows));
  return std::optional<Message>(std::move(message));
}

}  // namespace medley
