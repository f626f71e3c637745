#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace medley {

// Who claims a lease. An incarnation is one life of the holder, told from the others by a random number.
struct LeaseClaim {
  std::string name;
  std::string address;  // "host:port"
  uint64_t incarnation = 0;
};

enum class Registration {
  kNew,       // nobody held a lease under this name
  kRepeated,  // the holder itself asked again; its lease is renewed
  kReplaced,  // another incarnation held the lease: what it did is lost
};

// A lease is renewed three times, so that one renewal may be lost.
inline constexpr int kRenewalsALease = 3;
// Of all holders together: what renewing costs does not grow with them.
inline constexpr double kMostRenewalsPerSecond = 40;

// How long the leases of so many holders are: `shortest`, or longer where all of them would renew more often than that.
absl::Duration LeaseOf(absl::Duration shortest, size_t holders);

// Which nodes are alive, as a pure state machine: time is an argument. A lease is held from its last renewal
// for as long as LeaseOf says (exclusive of its end); it stays in the table until Expire or Register removes it, so
// that the loss of its holder is told exactly once. Not thread-safe.
class LeaseTable {
 public:
  // `shortest` > 0.
  explicit LeaseTable(absl::Duration shortest) : shortest_(shortest) {}

  // AlreadyExists: a lease under this name is held from another address; names that address. An agent that
  // came back elsewhere waits until its old lease has ended.
  absl::StatusOr<Registration> Register(const LeaseClaim& claim, absl::Time now);

  // From `now` on, for at least `promised`: what the holder was told, when there may have been more holders than now.
  // NotFound: no lease under `name`, it has ended, or it is another incarnation's: register anew.
  absl::Status Renew(const std::string& name, uint64_t incarnation, absl::Time now,
                     absl::Duration promised = absl::ZeroDuration());

  // Removes and returns the names whose lease ended at or before `now`, each exactly once, ascending.
  std::vector<std::string> Expire(absl::Time now);

  // Every lease ends later by so much: its holders could not be heard.
  void Extend(absl::Duration by);

  // Removes the lease. False: there is none under `name`, or it is another incarnation's.
  bool Leave(const std::string& name, uint64_t incarnation);

  // When the next lease ends if none is renewed; absl::InfiniteFuture() if there is none.
  absl::Time NextEnd() const;

  // Of a lease that is given now.
  absl::Duration lease() const { return LeaseOf(shortest_, leases_.size()); }

 private:
  struct Lease {
    std::string address;
    uint64_t incarnation = 0;
    absl::Time end;
  };
  const absl::Duration shortest_;
  std::map<std::string, Lease> leases_;
  absl::Time none_ends_before_ =
      absl::InfiniteFuture();  // so that nobody looks at each of thousands ten times a second
};

}  // namespace medley
