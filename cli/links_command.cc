#include "cli/links_command.h"

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/coordinator_client.h"
#include "cli/interrupts.h"
#include "cli/link_view.h"
#include "cli/patient_call.h"
#include "runtime/base/bytes.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/wire/enum_names.h"

namespace medley {
namespace {

absl::Status CheckOptions(const LinksCommand& command) {
  const auto refuse = [](const char* what) { return absl::InvalidArgumentError(what); };
  const bool group = !command.devices.empty() || command.bytes != 0;
  if (command.pair.size() == 1) return refuse("links: name two devices, or none for all");
  if (command.pair.size() == 2 && command.pair[0] == command.pair[1])
    return refuse("links: a link takes two different devices");
  const bool protection = command.protection != v1::MESSAGE_PROTECTION_UNSPECIFIED;
  if (!command.job.empty() &&
      (!command.pair.empty() || command.refresh || command.explain || group || protection)) {
    return refuse("--job: goes with nothing else");
  }
  if (group && !command.explain) return refuse("--devices, --bytes: go with --explain");
  if (group && (command.devices.size() < 2 || command.bytes == 0)) {
    return refuse("--explain: a group takes --devices A,B,... of two or more and --bytes");
  }
  if (!command.devices.empty() && protection)
    return refuse("--protection: goes with links, not with --devices");
  if (group && !command.pair.empty()) return refuse("--devices: is for a group; a pair is named without it");
  if (command.explain && !group && command.pair.empty()) {
    return refuse("--explain: name two devices, or a group with --devices and --bytes");
  }
  return absl::OkStatus();
}

// A device that the coordinator does not know was mistyped.
absl::Status AsInput(const absl::Status& status) {
  return absl::IsNotFound(status) ? absl::InvalidArgumentError(status.message()) : status;
}

absl::Status ShowTraffic(CoordinatorClient& client, const Connection& connection, const std::string& job) {
  ASSIGN_OR_RETURN(v1::Trace trace, client.GetTrace(job, 0));
  for (v1::TraceLane& lane : *trace.mutable_lanes()) lane.clear_instructions();
  Print(connection.output == Output::kJson ? JsonLine(trace) : FormatTraffic(trace, connection.columns));
  return absl::OkStatus();
}

absl::Status ShowGroup(CoordinatorClient& client, const Connection& connection, const LinksCommand& command) {
  const absl::StatusOr<v1::AllReduceExplanation> explanation =
      client.ExplainAllReduce(command.devices, static_cast<uint64_t>(command.bytes));
  RETURN_IF_ERROR(AsInput(explanation.status()));
  Print(connection.output == Output::kJson ? JsonLine(*explanation)
                                           : FormatAllReduce(*explanation, connection.columns));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunLinks(const Connection& connection, const LinksCommand& command) {
  RETURN_IF_ERROR(CheckOptions(command));
  if (command.refresh) BlockInterrupts();
  CoordinatorClient client = Connect(connection);
  if (!command.job.empty()) return ShowTraffic(client, connection, command.job);
  if (command.refresh) {
    const absl::StatusOr<v1::ListLinksResponse> measured =
        CallPatiently("measuring links", "interrupted", [&](CallHandle& handle) {
          return client.MeasureLinks(command.pair.empty() ? command.devices : command.pair,
                                     command.protection, handle);
        });
    RETURN_IF_ERROR(AsInput(measured.status()));
  }
  if (!command.devices.empty()) return ShowGroup(client, connection, command);
  const absl::StatusOr<v1::ListLinksResponse> links = client.ListLinks(command.pair, command.protection);
  RETURN_IF_ERROR(AsInput(links.status()));
  if (connection.output == Output::kJson) {
    Print(JsonLine(*links));
  } else if (command.pair.empty()) {
    Print(FormatLinks(*links, UnixSecondsNow(), connection.columns));
  } else if (links->links().empty()) {
    return absl::FailedPreconditionError(absl::StrCat("the link ", command.pair[0], " - ", command.pair[1],
                                                      " was not measured yet; --refresh does it"));
  } else {
    Print(FormatLink(links->links(0), UnixSecondsNow(), connection.columns));
  }
  return absl::OkStatus();
}

void AddLinksCommand(CLI::App& app, const Connection& connection, std::function<absl::Status()>& action) {
  const auto command = std::make_shared<LinksCommand>();
  CLI::App* links = app.add_subcommand("links", "what the links between devices do, as they were measured");
  links->add_option("DEVICES", command->pair, "two devices (node/device): their link by size; default: all")
      ->expected(0, 2);
  links->add_flag("--refresh", command->refresh, "measure anew first; the devices must be free");
  links->add_flag("--explain", command->explain,
                  "how a group would sum a vector, or all that is known of a pair");
  links->add_option_function<std::string>(
      "--devices",
      [command](const std::string& text) { command->devices = absl::StrSplit(text, ',', absl::SkipEmpty()); },
      "group to explain, A,B,...");
  links
      ->add_option_function<std::string>(
          "--bytes",
          [command](const std::string& text) {
            command->bytes = ParseBytes(text).value;
            if (command->bytes < 4)
              throw CLI::ValidationError("--bytes", text + " is no size of 4 bytes or more, as in 16MiB");
          },
          "that the group sums, as in 16MiB")
      ->type_name("SIZE");
  links
      ->add_option_function<std::string>(
          "--protection",
          [command](const std::string& text) {
            const auto* value = FindEnumValue(*v1::MessageProtection_descriptor(), text);
            if (value == nullptr)
              throw CLI::ValidationError("--protection",
                                         absl::StrCat("\"", text, "\" is none of: ",
                                                      EnumNames(*v1::MessageProtection_descriptor())));
            command->protection = static_cast<v1::MessageProtection>(value->number());
          },
          "links with messages protected like this: none, checksum, encryption; default: as the coordinator "
          "and the "
          "nodes ask for")
      ->type_name("KIND");
  links->add_option("--job", command->job, "what the units of this job have exchanged");
  links->callback([command, &connection, &action] {
    action = [command, &connection] { return RunLinks(connection, *command); };
  });
}

}  // namespace medley
