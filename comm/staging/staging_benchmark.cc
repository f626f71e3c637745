// Prints how fast a device's memory reaches another host's through this library, against what the copies
// alone and the link alone would give, as "key value" lines. Two ranks of this process, over UCX; the
// best of some rounds, each of which runs all of it, since others use the machine too.
//   staging_benchmark [--device NAME] [--mebibytes N] [--link tcp|shared_memory] [--rounds N]
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "comm/conformance/test_cluster.h"
#include "comm/staging/device_stream.h"
#include "comm/staging/measure_copies.h"
#include "comm/staging/strategy.h"
#include "kernels/backends.h"
#include "kernels/host/host_queue.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/device_name.h"

namespace medley {
namespace {

struct Settings {
  std::string device = "opencl", link = "tcp";
  int64_t bytes = int64_t{64} << 20;
  int rounds = 9;
};

// A way from rank 0 to rank 1, or back: how each end is handled, and on which queue its memory is.
struct Way {
  std::string name;
  Handling device_end, host_end;
  bool from_device = true;
};
const Way kWays[] = {
    {"staged", Handling::kStaged, Handling::kHost, true},
    {"whole", Handling::kWhole, Handling::kHost, true},
    {"staged_receive", Handling::kStaged, Handling::kHost, false},
    {"whole_receive", Handling::kWhole, Handling::kHost, false},
    // Between two hosts' memories: in one, and cut as if one of them staged.
    {"link_in_one", Handling::kHost, Handling::kHost, true},
    {"link_in_chunks", Handling::kHost, Handling::kStaged, true},
};

struct Rank {
  Transport& transport;
  DeviceQueue& queue;
  Buffer& buffer;
};

// Sends or receives once; an answer of a byte says that the receiver has all.
absl::Status RunOnce(const Rank& rank, bool sends, int64_t bytes, DeviceStream& stream) {
  const absl::Time deadline = Now() + absl::Seconds(60);
  const int peer = 1 - rank.transport.rank();
  const DeviceMessage message{.peer = peer, .tag = {}, .span = {&rank.buffer, 0, bytes}};
  std::byte answer{};
  const MessageTag answers{.kind = MessageTag::Kind::kProbe, .channel = 2};
  if (sends) {
    RETURN_IF_ERROR(stream.Send(message, deadline));
    ASSIGN_OR_RETURN(const auto come, rank.transport.Receive(peer, answers, {&answer, 1}));
    return come->Wait(deadline);
  }
  RETURN_IF_ERROR(stream.Receive(message, deadline));
  ASSIGN_OR_RETURN(const auto gone, rank.transport.Send(peer, answers, {&answer, 1}));
  return gone->Wait(deadline);
}

// Copies alone, over a lane, in chunks as a staged message has them.
absl::StatusOr<double> CopySeconds(const Rank& rank, CopyLane& lane, PinnedMemory& memory,
                                   const Settings& settings, int64_t chunk, bool to_host) {
  const absl::Time start = Now();
  for (int64_t done = 0; done < settings.bytes; done += chunk) {
    const int64_t size = std::min(chunk, settings.bytes - done);
    const absl::Span<std::byte> bytes =
        memory.bytes().subspan(static_cast<size_t>(done), static_cast<size_t>(size));
    RETURN_IF_ERROR(to_host ? lane.Download(rank.buffer, {done}, bytes)
                            : lane.Upload(bytes, rank.buffer, {done}));
  }
  RETURN_IF_ERROR(lane.Wait(lane.Record()));
  return absl::ToDoubleSeconds(Now() - start);
}

absl::StatusOr<Device> OpenDevice(const std::string& name) {
  ASSIGN_OR_RETURN(DeviceDescription description, ParseDeviceName(name));
  description.memory_limit = GiB(2);
  for (const Backend& backend : AllBackends()) {
    if (backend.name == description.backend) return backend.open(description);
  }
  return absl::NotFoundError("no backend is named " + description.backend);
}

absl::Status Run(const Settings& settings) {
  ASSIGN_OR_RETURN(const Device device, OpenDevice(settings.device));
  absl::StatusOr<std::unique_ptr<TestCluster>> cluster =
      absl::NotFoundError("no such link: " + settings.link);
  for (const TransportUnderTest& kind : AllTransports()) {
    if (kind.name == (settings.link == "tcp" ? "ucx tcp" : "ucx shared memory")) cluster = kind.open(2);
  }
  RETURN_IF_ERROR(cluster.status());
  HostQueue host("host", GiB(2));
  ASSIGN_OR_RETURN(const auto device_buffer, device.queue->Allocate({settings.bytes}));
  if (device_buffer->host_address() != nullptr) {
    return absl::InvalidArgumentError(settings.device + ": the host reaches its memory, nothing is staged");
  }
  ASSIGN_OR_RETURN(const auto near_buffer, host.Allocate({settings.bytes}));
  ASSIGN_OR_RETURN(const auto far_buffer, host.Allocate({settings.bytes}));
  ASSIGN_OR_RETURN(const std::unique_ptr<CopyLane> lane, device.queue->OpenCopyLane());
  ASSIGN_OR_RETURN(const std::unique_ptr<PinnedMemory> pinned, lane->AllocatePinned({settings.bytes}));
  std::memset(pinned->bytes().data(), 1, pinned->bytes().size());
  ASSIGN_OR_RETURN(const CopyCosts costs, MeasureCopies(*device.queue, *device_buffer, *lane));
  const StagingTerms staged = TermsOf(Handling::kStaged, costs);
  const int64_t chunk = WireChunkBytes(settings.bytes, staged, {});

  const Rank device_rank{(*cluster)->rank(0), *device.queue, *device_buffer};
  const Rank near_rank{(*cluster)->rank(0), host, *near_buffer},
      far_rank{(*cluster)->rank(1), host, *far_buffer};
  std::map<std::string, std::vector<double>> seconds;
  for (int round = -1; round < settings.rounds; ++round) {  // one that does not count
    for (const bool to_host : {true, false}) {
      ASSIGN_OR_RETURN(const double took, CopySeconds(device_rank, *lane, *pinned, settings, chunk, to_host));
      if (round >= 0) seconds[to_host ? "copy" : "copy_receive"].push_back(took);
    }
    for (const Way& way : kWays) {
      const bool on_device = way.device_end != Handling::kHost;
      const Rank& near = on_device ? device_rank : near_rank;
      // That a host's end says it stages only cuts the messages; its own stream is a host's.
      const std::vector<StagingTerms> near_terms = {TermsOf(way.device_end, costs),
                                                    TermsOf(way.host_end, costs)};
      const std::vector<StagingTerms> far_terms = {
          way.host_end == Handling::kHost ? near_terms[0] : TermsOf(Handling::kStaged, costs), {}};
      ASSIGN_OR_RETURN(const auto near_stream, DeviceStream::Open(near.queue, near.transport, near_terms));
      ASSIGN_OR_RETURN(const auto far_stream,
                       DeviceStream::Open(far_rank.queue, far_rank.transport, far_terms));
      for (int repeat = 0; repeat < 2; ++repeat) {  // pinned memory is allocated in the first
        absl::Status far_status;
        std::thread far(
            [&] { far_status = RunOnce(far_rank, !way.from_device, settings.bytes, *far_stream); });
        const absl::Time start = Now();
        const absl::Status near_status = RunOnce(near, way.from_device, settings.bytes, *near_stream);
        const double took = absl::ToDoubleSeconds(Now() - start);
        far.join();
        RETURN_IF_ERROR(Annotate(near_status, way.name));
        RETURN_IF_ERROR(Annotate(far_status, way.name));
        if (round >= 0 && repeat > 0) seconds[way.name].push_back(took);
      }
    }
  }
  const auto bandwidth = [&](const std::string& name) {
    return static_cast<double>(settings.bytes) /
           *std::min_element(seconds[name].begin(), seconds[name].end());
  };
  const double link = std::max(bandwidth("link_in_one"), bandwidth("link_in_chunks"));
  std::printf("device %s\nlink %s\nbytes %lld\nchunk_bytes %lld\n", device.queue->name().c_str(),
              settings.link.c_str(), static_cast<long long>(settings.bytes), static_cast<long long>(chunk));
  std::printf("copy_latency_seconds %.3g\n",
              std::max(costs.to_host.latency_seconds, costs.to_device.latency_seconds));
  std::printf("link_bandwidth_bytes_per_second %.4g\n", link);
  for (const std::string direction : {"", "_receive"}) {
    const double copy = bandwidth("copy" + direction), chunks = bandwidth("staged" + direction);
    std::printf("copy%s_bandwidth_bytes_per_second %.4g\n", direction.c_str(), copy);
    std::printf("staged%s_bandwidth_bytes_per_second %.4g\n", direction.c_str(), chunks);
    std::printf("whole%s_bandwidth_bytes_per_second %.4g\n", direction.c_str(),
                bandwidth("whole" + direction));
    std::printf("staging%s_efficiency %.3f\n", direction.c_str(), chunks / std::min(copy, link));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  medley::Settings settings;
  bool understood = count % 2 == 1;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i], value = arguments[i + 1];
    int64_t number = 0;
    const bool positive = absl::SimpleAtoi(value, &number) && number > 0 && number <= 1024;
    if (name == "--device") {
      settings.device = value;
    } else if (name == "--link" && (value == "tcp" || value == "shared_memory")) {
      settings.link = value;
    } else if (name == "--mebibytes" && positive) {
      settings.bytes = number << 20;
    } else if (name == "--rounds" && positive) {
      settings.rounds = static_cast<int>(number);
    } else {
      understood = false;
    }
  }
  if (!understood) {
    std::fprintf(stderr,
                 "staging_benchmark [--device NAME] [--mebibytes 1..1024] [--link tcp|shared_memory] "
                 "[--rounds 1..1024]\n");
    return 2;
  }
  const absl::Status status = medley::Run(settings);
  if (status.ok()) return 0;
  std::fprintf(stderr, "staging_benchmark: %s\n", std::string(status.message()).c_str());
  return 1;
}
