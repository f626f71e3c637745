#include "cli/join_token_command.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/coordinator_client.h"
#include "cli/number_format.h"
#include "cli/text_table.h"
#include "cli/time_option.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/wire/json_message.h"

namespace medley {
namespace {

struct JoinTokenCommand {
  std::string node, valid_for = "1h", id;
};

absl::Status Create(const Connection& connection, const JoinTokenCommand& command) {
  v1::CreateJoinTokenRequest request;
  request.set_node(command.node);
  ASSIGN_OR_RETURN(const double valid_seconds, ParseLength("--valid-for", command.valid_for));
  request.set_valid_seconds(valid_seconds);
  const absl::StatusOr<v1::CreateJoinTokenResponse> made = Connect(connection).CreateJoinToken(request);
  RETURN_IF_ERROR(
      Show(connection, made, [](const v1::CreateJoinTokenResponse& reply) { return reply.token() + "\n"; }));
  Note(connection,
       absl::StrCat(
           "token ", made->token_id(), " is good for ",
           command.node.empty() ? "one node" : absl::StrCat("node ", command.node), " until ",
           FormatTime(made->expires_at_seconds()),
           " UTC; it is not shown again. Write it to the file that the agent's join_token_file names"));
  return absl::OkStatus();
}

std::string StateOf(const v1::JoinToken& token, double now_seconds) {
  if (token.revoked_at_seconds() > 0) return absl::StrCat("revoked ", FormatTime(token.revoked_at_seconds()));
  if (token.used_at_seconds() > 0)
    return absl::StrCat("used ", FormatTime(token.used_at_seconds()), " by ", Printable(token.used_by()));
  return now_seconds > token.expires_at_seconds() ? "expired" : "good";
}

std::string FormatTokens(const v1::ListJoinTokensResponse& tokens, size_t columns) {
  std::vector<std::vector<std::string>> rows = {{"id", "for", "created", "by", "until", "is"}};
  const double now = UnixSecondsNow();
  for (const v1::JoinToken& token : tokens.tokens()) {
    rows.push_back({Printable(token.id()), token.node().empty() ? "any node" : Printable(token.node()),
                    FormatTime(token.created_at_seconds()),
                    token.created_by().empty() ? "nobody known" : Printable(token.created_by()),
                    FormatTime(token.expires_at_seconds()), StateOf(token, now)});
  }
  return FormatTable(rows, columns);
}

absl::Status List(const Connection& connection, const JoinTokenCommand&) {
  return Show(connection, Connect(connection).ListJoinTokens(), [&](const v1::ListJoinTokensResponse& reply) {
    return FormatTokens(reply, connection.columns);
  });
}

absl::Status Revoke(const Connection& connection, const JoinTokenCommand& command) {
  RETURN_IF_ERROR(Connect(connection).RevokeJoinToken(command.id));
  Print(connection.output == Output::kJson
            ? absl::StrCat("{\"revoked\": ", JsonString(command.id), "}\n")
            : absl::StrCat("nobody joins by token ", command.id, " any more; who has joined stays\n"));
  return absl::OkStatus();
}

}  // namespace

void AddJoinTokenCommand(CLI::App& app, const Connection& connection, std::function<absl::Status()>& action) {
  const auto command = std::make_shared<JoinTokenCommand>();
  CLI::App* tokens = app.add_subcommand("join-token", "tokens by which new agents get their certificates");
  tokens->require_subcommand(1);
  const auto add = [&](const char* name, const char* what, auto run) {
    CLI::App* made = tokens->add_subcommand(name, what);
    made->callback([&action, &connection, command, run] {
      action = [&connection, command, run] { return run(connection, *command); };
    });
    return made;
  };
  CLI::App* create = add("create", "a token for one agent; prints it, once", Create);
  create->add_option("--node", command->node, "the only node that may use it; default: any new one");
  create
      ->add_option("--valid-for", command->valid_for, "how long it may be used, as in 30m or 2d; at most 30d")
      ->capture_default_str();
  add("list", "tokens of the last thirty days, without their secrets", List);
  CLI::App* revoke = add("revoke", "nobody joins by a token any more", Revoke);
  revoke->add_option("ID", command->id, "id of the token")->required();
}

}  // namespace medley
