#include "agent/worker/serve.h"

#include <optional>

#include "absl/strings/str_join.h"
#include "agent/channel/message_channel.h"
#include "agent/worker/agent_watch.h"
#include "agent/worker/kernel_report.h"
#include "agent/worker/task.h"
#include "runtime/base/current_phase.h"
#include "runtime/base/valid_utf8.h"
#include "runtime/log/log.h"
#include "runtime/wire/device_codec.h"
#include "runtime/wire/validate.h"

namespace medley {
namespace {

WorkerSite SiteOf(const v1::PrepareWorker& prepare) {
  WorkerSite site{.device = DecodeDevice(prepare.device()),
                  .device_kind = prepare.device().kind(),
                  .network_devices = absl::StrJoin(prepare.network_devices(), ",")};
  if (prepare.links() == "tcp") site.links = UcxTransport::Links::kTcp;
  if (prepare.links() == "shared-memory") site.links = UcxTransport::Links::kSharedMemory;
  return site;
}

absl::StatusOr<std::unique_ptr<WorkerTask>> PrepareTask(const v1::PrepareWorker& prepare, AgentWatch& watch) {
  const v1::PrepareRequest& request = prepare.request();
  if (const absl::Status valid = ValidateMessage(request); !valid.ok()) return valid;
  WorkerSite site = SiteOf(prepare);
  site.finish_early = &watch.finish_early();
  site.trace_window = &watch.trace_window();
  site.allocated_bytes = &watch.allocated_bytes();
  if (request.has_train()) return PrepareTraining(request, site);
  if (request.has_profile()) return PrepareProfile(request, site);
  if (request.has_probe()) return PrepareProbe(request, site);
  return absl::InvalidArgumentError("no task was given");
}

// What lines of this process are about.
LogFields FieldsOf(const v1::PrepareWorker& prepare) {
  LogFields fields{.node = prepare.node(), .request = prepare.request_id()};
  if (!prepare.request().has_train()) return fields;
  const v1::TrainTask& train = prepare.request().train();
  fields.job = train.job_id();
  fields.attempt = train.job_attempt();
  fields.rank = static_cast<int>(train.rank());
  return fields;
}

void SetFinished(v1::Finished& finished, const absl::Status& status) {
  finished.set_code(static_cast<uint32_t>(status.raw_code()));
  finished.set_message(ValidUtf8(status.message()));  // which may quote what a file holds
}

int ServeKernels(MessageChannel& channel, const v1::Device& description) {
  absl::StatusOr<Device> device = OpenDevice(DecodeDevice(description));
  v1::WorkerReply reply;
  if (device.ok()) {
    *reply.mutable_kernels() = DescribeKernels(*device, description.backend());
    reply.mutable_kernels()->set_device(description.name());
  } else {
    SetFinished(*reply.mutable_failed(), device.status());
  }
  (void)channel.Send(reply);
  return device.ok() ? 0 : 1;
}

}  // namespace

int ServeOneTask(int channel_descriptor) {
  // Both outlive the watching threads: the process ends by _exit.
  auto& channel = *new MessageChannel(channel_descriptor);
  v1::WorkerCommand command;
  if (!channel.Receive(command, absl::InfiniteFuture()).ok()) return 2;
  if (!command.has_prepare() && !command.has_describe_kernels()) return 2;
  auto& watch = *new AgentWatch(channel);
  watch.HoldTo(absl::Seconds(command.prepare().lease_seconds()));
  if (command.has_describe_kernels()) return ServeKernels(channel, command.describe_kernels());

  SetLogContext(FieldsOf(command.prepare()));
  absl::StatusOr<std::unique_ptr<WorkerTask>> task = PrepareTask(command.prepare(), watch);
  v1::WorkerReply reply;
  if (!task.ok()) {
    SetFinished(*reply.mutable_failed(), task.status());
    (void)channel.Send(reply);
    return 1;
  }
  reply.mutable_prepared()->set_data_plane_address((*task)->data_plane_address());
  for (const int peer : (*task)->peers()) reply.mutable_prepared()->add_peers(static_cast<uint32_t>(peer));
  watch.allocated_bytes() = static_cast<uint64_t>((*task)->allocated().value);
  reply.mutable_prepared()->set_allocated_bytes(watch.allocated_bytes());
  reply.mutable_prepared()->set_data_fingerprint((*task)->data_fingerprint());
  CurrentPhase::OfProcess().Enter("waiting for the start", /*waits_for_peers=*/true);
  (void)channel.Send(reply);

  const std::vector<std::string> addresses = watch.Addresses();
  CurrentPhase::OfProcess().Enter("running");
  const absl::Status status = (*task)->Run(addresses, [&](const v1::WorkerEvent& event) {
    v1::WorkerReply said;
    *said.mutable_event() = event;
    (void)channel.Send(said);
  });
  if (!status.ok()) LogError(status.message());
  v1::WorkerReply last;
  v1::Finished& finished = *last.mutable_event()->mutable_finished();
  SetFinished(finished, status);
  if (const std::optional<int64_t> step = (*task)->stopped_at_step(); status.ok() && step.has_value()) {
    finished.set_stopped(true);
    finished.set_stopped_at_step(static_cast<uint32_t>(*step));
  }
  (void)channel.Send(last);
  return status.ok() ? 0 : 1;
}

}  // namespace medley
