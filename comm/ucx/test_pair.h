#pragma once
#include <memory>
#include <string>
#include <vector>

#include "comm/ucx/ucx_transport.h"
#include "runtime/base/clock.h"

namespace medley {

inline absl::Time Soon() { return Now() + absl::Seconds(20); }

struct UcxPair {
  std::unique_ptr<UcxTransport> a, b;
};

// Ranks 0 and 1 of an attempt, in this process.
inline absl::StatusOr<UcxPair> ConnectedPair(UcxLinks links, const std::string& secret = "") {
  UcxTransport::Options options{.attempt = 5, .rank = 0, .size = 2, .links = links, .secret = secret};
  absl::StatusOr<std::unique_ptr<UcxTransport>> a = UcxTransport::Create(options);
  if (!a.ok()) return a.status();
  options.rank = 1;
  absl::StatusOr<std::unique_ptr<UcxTransport>> b = UcxTransport::Create(options);
  if (!b.ok()) return b.status();
  const std::vector<std::string> addresses = {(*a)->address(), (*b)->address()};
  for (const auto* end : {&*a, &*b}) {
    if (const absl::Status connected = (*end)->Connect(addresses, Soon()); !connected.ok()) return connected;
  }
  return UcxPair{*std::move(a), *std::move(b)};
}

}  // namespace medley
