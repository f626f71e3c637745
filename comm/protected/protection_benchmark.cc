// Prints what protected messages cost beside plain ones, as "key value" lines: sealing and opening on one thread against a copy of
// the same bytes, and messages over TCP between two transports of this process. The ways take turns, and the best of each counts,
// since others use the machine too.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include "comm/protected/protected_transport.h"
#include "comm/ucx/ucx_transport.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr size_t kBytes = 4 << 20;
constexpr MessageTag kTag{MessageTag::Kind::kProbe, 0, 0};
constexpr MessageProtection kWays[] = {MessageProtection::kNone, MessageProtection::kChecksum,
                                       MessageProtection::kEncryption};
constexpr char kSecret[] = "a secret for a benchmark";

double SecondsOf(const std::function<void()>& work) {
  const absl::Time begin = Now();
  work();
  return absl::ToDoubleSeconds(Now() - begin);
}

void Keep(std::map<std::string, double>& best, const std::string& name, double seconds) {
  const auto [known, is_new] = best.emplace(name, seconds);
  if (!is_new) known->second = std::min(known->second, seconds);
}

void OnOneThread(int rounds) {
  std::vector<std::byte> plain(kBytes, std::byte{1}), sealed(kBytes);
  const MessageSeal checksum(MessageProtection::kChecksum, {}, 0, 1);
  const MessageSeal encryption(MessageProtection::kEncryption, DeriveMessageKey(kSecret, 1, 0, 1), 0, 1);
  MessageTrailer of_plain, of_sealed;
  std::map<std::string, double> best;
  for (int round = 0; round < rounds; ++round) {
    const auto number = static_cast<uint64_t>(round);
    Keep(best, "copy", SecondsOf([&] { std::memcpy(sealed.data(), plain.data(), kBytes); }));
    Keep(best, "checksum_seal", SecondsOf([&] { checksum.Seal(kTag, number, plain, nullptr, of_plain); }));
    Keep(best, "checksum_open",
         SecondsOf([&] { checksum.Open(kTag, number, absl::MakeSpan(plain), of_plain); }));
    Keep(best, "encryption_seal",
         SecondsOf([&] { encryption.Seal(kTag, number, plain, sealed.data(), of_sealed); }));
    Keep(best, "encryption_open",
         SecondsOf([&] { encryption.Open(kTag, number, absl::MakeSpan(sealed), of_sealed); }));
  }
  for (const auto& [name, seconds] : best) {
    std::printf("protection_%s_bytes_per_second %.4g\n", name.c_str(), kBytes / seconds);
    if (name != "copy") std::printf("protection_%s_over_copy %.3f\n", name.c_str(), best["copy"] / seconds);
  }
}

// Two ranks, whose messages are protected in every way.
struct Ends {
  std::unique_ptr<UcxTransport> transport;
  std::unique_ptr<ProtectedTransport> checksum, encryption;
  Transport& With(MessageProtection way) {
    if (way == MessageProtection::kNone) return *transport;
    return way == MessageProtection::kChecksum ? *checksum : *encryption;
  }
};

absl::StatusOr<std::vector<Ends>> Connect() {
  std::vector<Ends> ends(2);
  std::vector<std::string> addresses;
  for (int rank = 0; rank < 2; ++rank) {
    ASSIGN_OR_RETURN(ends[rank].transport, UcxTransport::Create({.attempt = 1,
                                                                 .rank = rank,
                                                                 .size = 2,
                                                                 .links = UcxTransport::Links::kTcp,
                                                                 .network_devices = "lo",
                                                                 .secret = kSecret}));
    addresses.push_back(ends[rank].transport->address());
    ASSIGN_OR_RETURN(
        ends[rank].checksum,
        ProtectedTransport::Create(*ends[rank].transport, {.protection = MessageProtection::kChecksum}));
    ASSIGN_OR_RETURN(ends[rank].encryption,
                     ProtectedTransport::Create(*ends[rank].transport, {.secret = kSecret, .attempt = 1}));
  }
  for (const Ends& end : ends) RETURN_IF_ERROR(end.transport->Connect(addresses, Now() + absl::Seconds(20)));
  return ends;
}

// There and back, each way as one message.
absl::Status Echo(Transport& transport, int messages, size_t bytes, bool leads) {
  std::vector<std::byte> memory(bytes);
  for (int i = 0; i < 2 * messages; ++i) {
    const bool sends = leads == (i % 2 == 0);
    ASSIGN_OR_RETURN(const auto transfer,
                     sends ? transport.Send(1 - transport.rank(), kTag, memory)
                           : transport.Receive(1 - transport.rank(), kTag, absl::MakeSpan(memory)));
    RETURN_IF_ERROR(transfer->Wait(Now() + absl::Seconds(60)));
  }
  return absl::OkStatus();
}

absl::Status OverTcp(int rounds) {
  ASSIGN_OR_RETURN(std::vector<Ends> ends, Connect());
  for (const auto& [name, bytes, messages] :
       {std::tuple{"8B", size_t{8}, 200}, std::tuple{"4MiB", kBytes, 4}}) {
    std::map<std::string, double> best;
    for (int round = 0; round < rounds; ++round) {
      for (const MessageProtection way : kWays) {
        absl::Status other, own;
        std::thread follower([&, messages = messages, bytes = bytes] {
          other = Echo(ends[1].With(way), messages, bytes, /*leads=*/false);
        });
        const double seconds = SecondsOf([&, messages = messages, bytes = bytes] {
          own = Echo(ends[0].With(way), messages, bytes, /*leads=*/true);
        });
        follower.join();
        RETURN_IF_ERROR(own);
        RETURN_IF_ERROR(other);
        Keep(best, NameOf(way), seconds / (2 * messages));
      }
    }
    for (const MessageProtection way : kWays) {
      const double seconds = best[NameOf(way)];
      std::printf("protection_tcp_%s_%s_seconds %.4g\n", name, NameOf(way), seconds);
      if (way != MessageProtection::kNone)
        std::printf("protection_tcp_%s_%s_over_plain %.3f\n", name, NameOf(way), seconds / best["none"]);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace medley

int main(int count, char** arguments) {
  CLI::App app("what protected messages cost");
  bool quick = false;
  app.add_flag("--quick", quick, "a tenth of the rounds");
  CLI11_PARSE(app, count, arguments);
  medley::OnOneThread(quick ? 10 : 100);
  const absl::Status status = medley::OverTcp(quick ? 5 : 50);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
