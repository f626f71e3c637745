#include "comm/ucx/ucx_worker.h"

#include "absl/strings/match.h"
#include "comm/ucx/ucx_status.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

// With a peer failure handler UCX 1.13 sends large messages over TCP in pieces of this size, each a system
// call and a copy (64 KiB by default). The same on all ranks, since the sender cuts by its own; a connection
// has one such buffer.
constexpr char kTcpSegment[] = "512K";

// Before 1.17 UCX takes the settings of a transport without the prefix; with the wrong name it warns, and
// goes on.
const char* NameOfTcpSegment() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return major == 1 && minor < 17 ? "RX_SEG_SIZE" : "TCP_RX_SEG_SIZE";
}

absl::StatusOr<ucp_context_h> MakeContext(const UcxWorker::Options& options) {
  ucp_config_t* read = nullptr;
  RETURN_IF_ERROR(
      FromUcs(ucp_config_read(/*env_prefix=*/nullptr, /*filename=*/nullptr, &read), "ucp_config_read"));
  const std::unique_ptr<ucp_config_t, decltype(&ucp_config_release)> config(read, &ucp_config_release);
  RETURN_IF_ERROR(
      FromUcs(ucp_config_modify(config.get(), "TLS", options.transports.c_str()), "UCX setting TLS"));
  if (!options.network_devices.empty()) {
    RETURN_IF_ERROR(FromUcs(ucp_config_modify(config.get(), "NET_DEVICES", options.network_devices.c_str()),
                            "UCX setting NET_DEVICES"));
  }
  if (absl::StrContains(options.transports, "tcp")) {
    RETURN_IF_ERROR(FromUcs(ucp_config_modify(config.get(), NameOfTcpSegment(), kTcpSegment),
                            "UCX setting the segment size of TCP"));
  }
  ucp_params_t params = {};
  params.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = static_cast<size_t>(options.peers);
  params.mt_workers_shared = 0;
  ucp_context_h context = nullptr;
  RETURN_IF_ERROR(FromUcs(ucp_init(&params, config.get(), &context),
                          "UCX with transports " + options.transports + " on network devices " +
                              (options.network_devices.empty() ? "all" : options.network_devices)));
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(const Options& options) {
  std::unique_ptr<UcxWorker> made(new UcxWorker);
  ASSIGN_OR_RETURN(made->context_, MakeContext(options));
  ucp_context_attr_t attributes = {};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  RETURN_IF_ERROR(FromUcs(ucp_context_query(made->context_, &attributes), "ucp_context_query"));
  made->memory_types_ = attributes.memory_types;
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_EVENTS;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  // No UCP_WAKEUP_EDGE: the descriptor stays readable until all is handled, whoever handles it.
  params.events = UCP_WAKEUP_TAG_SEND | UCP_WAKEUP_TAG_RECV | UCP_WAKEUP_TX | UCP_WAKEUP_RX;
  RETURN_IF_ERROR(FromUcs(ucp_worker_create(made->context_, &params, &made->worker_), "ucp_worker_create"));
  RETURN_IF_ERROR(FromUcs(ucp_worker_get_efd(made->worker_, &made->event_descriptor_), "ucp_worker_get_efd"));
  return made;
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

absl::StatusOr<std::string> UcxWorker::PackAddress(Reach reach) const {
  ucp_worker_attr_t attributes = {};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
  attributes.address_flags = reach == Reach::kNetwork ? UCP_WORKER_ADDRESS_FLAG_NET_ONLY : 0;
  RETURN_IF_ERROR(FromUcs(ucp_worker_query(worker_, &attributes), "ucp_worker_query"));
  std::string packed(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  ucp_worker_release_address(worker_, attributes.address);
  return packed;
}

}  // namespace medley
