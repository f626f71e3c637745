#include "comm/ucx/ucx_links.h"

#include <net/if.h>
#include <sys/stat.h>
#include <uct/api/uct.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "comm/ucx/ucx_status.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

bool IsRdmaPort(const std::string& name, const std::string& devices) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(name, absl::MaxSplits(':', 1));
  uint32_t port;
  if (parts.first.empty() || absl::StrContains(name, "/") || !absl::SimpleAtoi(parts.second, &port))
    return false;
  struct stat about;
  return stat(absl::StrCat(devices, "/", parts.first, "/ports/", port).c_str(), &about) == 0;
}

// What a component can be opened for.
absl::StatusOr<std::vector<std::string>> MemoryDomains(uct_component_h component, unsigned count) {
  std::vector<uct_md_resource_desc_t> domains(count);
  uct_component_attr_t attributes = {};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  RETURN_IF_ERROR(FromUcs(uct_component_query(component, &attributes), "uct_component_query"));
  std::vector<std::string> names;
  for (const uct_md_resource_desc_t& domain : domains) names.emplace_back(domain.md_name);
  return names;
}

// Transports by the beginning of their names; the first that fits.
constexpr std::pair<const char*, const char*> kPaths[] = {
    {"rc_", "rdma"},
    {"ud_", "rdma"},
    {"dc_", "rdma"},
    {"tcp", "tcp"},
    {"sysv", "shared memory"},
    {"posix", "shared memory"},
    {"xpmem", "shared memory"},
    {"self", "self"},
};

}  // namespace

absl::StatusOr<UcxFindings> QueryUcx() {
  uct_component_h* listed = nullptr;
  unsigned count = 0;
  RETURN_IF_ERROR(FromUcs(uct_query_components(&listed, &count), "uct_query_components"));
  const std::unique_ptr<uct_component_h, decltype(&uct_release_component_list)> components(
      listed, &uct_release_component_list);
  UcxFindings found;
  for (unsigned i = 0; i < count; ++i) {
    uct_component_attr_t attributes = {};
    attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME | UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
    RETURN_IF_ERROR(FromUcs(uct_component_query(listed[i], &attributes), "uct_component_query"));
    if (attributes.md_resource_count == 0) continue;
    const std::string name = attributes.name;
    if (name == "ib") {  // its memory domains are devices
      ASSIGN_OR_RETURN(found.rdma_devices, MemoryDomains(listed[i], attributes.md_resource_count));
    }
    found.cuda |= absl::StartsWith(name, "cuda_");
    found.rocm |= absl::StartsWith(name, "rocm_");
  }
  return found;
}

std::string TransportsFor(UcxLinks links, const UcxFindings& found) {
  std::string transports;
  switch (links) {
    case UcxLinks::kAutomatic:
      transports = found.rdma_devices.empty() ? "tcp,sm,self" : "ib,tcp,sm,self";
      break;
    case UcxLinks::kTcp:
      transports = "tcp,self";
      break;
    case UcxLinks::kSharedMemory:
      transports = "sm,self";
      break;
  }
  if (found.cuda) transports += ",cuda";  // UCX's aliases: copies, IPC and GPUDirect
  if (found.rocm) transports += ",rocm";
  return transports;
}

absl::Status CheckDevices(const std::string& names, const std::string& rdma_devices) {
  if (names.empty()) return absl::OkStatus();
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(names, ','))) {
    if (if_nametoindex(name.c_str()) != 0 || IsRdmaPort(name, rdma_devices)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "network_devices is \"", names, "\", and \"", name,
        "\" is no network interface here, nor an RDMA device with its port (as in \"mlx5_0:1\")"));
  }
  return absl::OkStatus();
}

std::string PathOf(const std::string& endpoint_info) {
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(endpoint_info, '\n'))) {
    // "lane[0]:  1:tcp/lo.0 md[1]  -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0"
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    bool messages = false;
    for (const std::string& word : words) messages |= word == "am";
    if (!messages) continue;
    for (const std::string& word : words) {
      const std::vector<std::string> parts = absl::StrSplit(word, ':');
      if (parts.size() < 2 || !absl::StrContains(parts[1], "/")) continue;
      for (const auto& [prefix, path] : kPaths) {
        if (absl::StartsWith(parts[1], prefix)) return path;
      }
    }
  }
  return "unknown";
}

}  // namespace medley
