#include "coordinator/web/web_api.h"

#include <grpcpp/support/channel_arguments.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "coordinator/web/in_process_call.h"
#include "nlohmann/json.hpp"
#include "proto/medley/v1/coordinator.pb.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/version.h"
#include "runtime/security/rpc_roles.h"
#include "runtime/wire/json_message.h"
#include "runtime/wire/nearest_name.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

constexpr char kPrefix[] = "/api/v1";
constexpr char kJson[] = "application/json", kLines[] = "application/x-ndjson";

const ServiceDescriptor& Service() {
  return *v1::SubmitJobRequest::descriptor()->file()->FindServiceByName("Coordinator");
}

std::string PathOf(const MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

std::string ErrorLine(const absl::Status& status) {
  return absl::StrCat(R"({"error": {"code": )", JsonString(absl::StatusCodeToString(status.code())),
                      R"(, "message": )", JsonString(std::string(status.message())), "}}\n");
}

// As others have mapped them before (google.rpc.Code).
int HttpStatus(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

absl::Status MayNot(const MethodDescriptor& method, const Identity& caller) {
  if (MayCall(caller.role, PathOf(method))) return absl::OkStatus();
  if (caller.role == v1::ROLE_UNSPECIFIED && caller.name.empty())
    return absl::UnauthenticatedError("a client certificate is needed: medley certs issue makes one");
  return absl::PermissionDeniedError(absl::StrCat(
      method.name(), " ", WhatItNeeds(PathOf(method)), "; ", caller.name,
      caller.role == v1::ROLE_UNSPECIFIED ? " has none"
                                          : absl::StrCat(" has the role ", RoleName(caller.role))));
}

// A parameter's values as YAML of its field.
std::string YamlOf(const FieldDescriptor& field, const std::vector<std::string>& values) {
  const std::string joined = absl::StrJoin(values, ", ", [&](std::string* out, const std::string& value) {
    absl::StrAppend(out, field.type() == FieldDescriptor::TYPE_STRING ? JsonString(value) : value);
  });
  return field.is_repeated() ? absl::StrCat("[", joined, "]") : joined;
}

// The request of a body, JSON or YAML, or of a query's parameters.
absl::Status ReadRequest(const WebRequest& request, Message& message) {
  if (request.method == "POST")
    return ReadYaml(request.body.empty() ? "{}" : request.body, "request", &message);
  std::vector<YamlOverride> values;
  for (auto i = request.parameters.begin(); i != request.parameters.end();
       i = request.parameters.upper_bound(i->first)) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(i->first);
    if (field == nullptr)
      return absl::InvalidArgumentError(absl::StrCat("?", i->first, ": there is no such parameter"));
    std::vector<std::string> given;
    for (auto [value, end] = request.parameters.equal_range(i->first); value != end; ++value)
      given.push_back(value->second);
    values.push_back(
        {.path = i->first, .value = YamlOf(*field, given), .shown = absl::StrCat("?", i->first)});
  }
  return ReadYaml("{}", "request", &message, values);
}

// Who asks, and what they may.
WebAnswer About(const Identity& caller) {
  nlohmann::json methods;
  for (int i = 0; i < Service().method_count(); ++i)
    methods[Service().method(i)->name()] = MayCall(caller.role, PathOf(*Service().method(i)));
  const nlohmann::json about = {{"version", kMedleyVersion},
                                {"identity", caller.name},
                                {"role", RoleName(caller.role)},
                                {"methods", methods}};
  return {.content_type = kJson, .body = about.dump() + "\n"};
}

// One for each call: the server lets a channel grow no older than connections (ServerOptions), and one like this makes no new ones.
std::shared_ptr<grpc::Channel> ChannelTo(grpc::Server& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // it is as large here as it was there
  return server.InProcessChannel(arguments);
}

absl::Status NoSuchMethod(const std::string& name) {
  std::vector<std::string> names;
  for (int i = 0; i < Service().method_count(); ++i) names.push_back(Service().method(i)->name());
  const std::string nearest = NearestName(name, names);
  return absl::UnimplementedError(
      absl::StrCat("there is no method \"", name, "\"",
                   nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?")));
}

}  // namespace

WebAnswer ErrorAnswer(const absl::Status& status) {
  return {.status = HttpStatus(status.code()), .content_type = kJson, .body = ErrorLine(status)};
}

WebAnswer WebApi::Answer(const WebRequest& request) {
  const std::string name(absl::StripPrefix(absl::StripPrefix(request.path, kPrefix), "/"));
  if (name.empty()) return About(request.caller);
  const MethodDescriptor* method = Service().FindMethodByName(name);
  if (method == nullptr) return ErrorAnswer(NoSuchMethod(name));
  if (const absl::Status why = MayNot(*method, request.caller); !why.ok()) {
    refused_(request.caller, PathOf(*method), why);
    return ErrorAnswer(why);
  }
  if (request.method != "POST" && ChangesSomething(PathOf(*method)))
    return {.status = 405,
            .content_type = kJson,
            .body = ErrorLine(absl::InvalidArgumentError(absl::StrCat(name, " is for POST")))};
  return Call(*method, request);
}

WebAnswer WebApi::Call(const MethodDescriptor& method, const WebRequest& request) {
  const std::unique_ptr<Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.input_type())->New());
  if (const absl::Status read = ReadRequest(request, *message); !read.ok()) return ErrorAnswer(read);
  const auto call = std::make_shared<InProcessCall>(ChannelTo(server_), method, request.caller.name,
                                                    request.caller_until, *message);
  const auto goes_on = [&] { return !stopping_ && request.is_open(); };
  // The first message, or the error in its place, decides about the status.
  std::shared_ptr<Message> first = call->Next(goes_on);
  if (first == nullptr) {
    const absl::Status ended = call->Finish();
    if (!ended.ok()) return ErrorAnswer(ended);
    return {.content_type = kLines, .body = ""};
  }
  if (!method.server_streaming()) {
    const absl::Status ended = call->Finish();
    return ended.ok() ? WebAnswer{.content_type = kJson, .body = JsonOf(*first) + "\n"} : ErrorAnswer(ended);
  }
  WebAnswer answer;
  answer.content_type = kLines;
  answer.stream = [this, call, first](const std::function<bool(const std::string&)>& write) mutable {
    bool is_read = true;
    const auto is_wanted = [&] { return !stopping_ && (is_read = is_read && write("")); };
    for (std::shared_ptr<Message> next = std::move(first); next != nullptr && is_read;
         next = call->Next(is_wanted))
      is_read = write(JsonOf(*next) + "\n");
    if (!is_read) return;
    if (const absl::Status ended = call->Finish(); !ended.ok()) write(ErrorLine(ended));
  };
  return answer;
}

}  // namespace medley
