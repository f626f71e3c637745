#include "coordinator/cluster/lease_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace medley {

absl::Duration LeaseOf(absl::Duration shortest, size_t holders) {
  const double seconds = kRenewalsALease * static_cast<double>(holders) / kMostRenewalsPerSecond;
  return std::max(shortest, absl::Seconds(seconds));
}

absl::StatusOr<Registration> LeaseTable::Register(const LeaseClaim& claim, absl::Time now) {
  const auto found = leases_.find(claim.name);
  Registration registration = Registration::kNew;
  if (found != leases_.end()) {
    const Lease& held = found->second;
    if (held.end > now && held.address != claim.address) {
      return absl::AlreadyExistsError(
          absl::StrCat("node ", claim.name, " registers from ", claim.address, ", but a live one is at ",
                       held.address, "; give it another name, or wait ",
                       absl::FormatDuration(absl::Ceil(held.end - now, absl::Seconds(1)))));
    }
    // A holder that comes back after its lease has ended was given up, even if nobody has asked since.
    const bool same_life = held.incarnation == claim.incarnation && held.end > now;
    registration = same_life ? Registration::kRepeated : Registration::kReplaced;
  }
  Lease& given = leases_[claim.name];  // counts
  given = {claim.address, claim.incarnation, now + lease()};
  none_ends_before_ = std::min(none_ends_before_, given.end);
  return registration;
}

absl::Status LeaseTable::Renew(const std::string& name, uint64_t incarnation, absl::Time now,
                               absl::Duration promised) {
  const auto found = leases_.find(name);
  if (found == leases_.end()) return absl::NotFoundError(absl::StrCat("node ", name, " holds no lease"));
  Lease& held = found->second;
  if (held.incarnation != incarnation) {
    return absl::NotFoundError(absl::StrCat("the lease of node ", name, " is another incarnation's"));
  }
  if (held.end <= now) return absl::NotFoundError(absl::StrCat("the lease of node ", name, " has ended"));
  held.end = now + std::max(promised, lease());
  return absl::OkStatus();
}

std::vector<std::string> LeaseTable::Expire(absl::Time now) {
  std::vector<std::string> ended;
  if (now < none_ends_before_) return ended;
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    if (lease->second.end > now) {
      ++lease;
      continue;
    }
    ended.push_back(lease->first);
    lease = leases_.erase(lease);
  }
  none_ends_before_ = NextEnd();
  return ended;
}

void LeaseTable::Extend(absl::Duration by) {
  for (auto& [name, lease] : leases_) lease.end += by;
  none_ends_before_ += by;
}

bool LeaseTable::Leave(const std::string& name, uint64_t incarnation) {
  const auto found = leases_.find(name);
  if (found == leases_.end() || found->second.incarnation != incarnation) return false;
  leases_.erase(found);
  return true;
}

absl::Time LeaseTable::NextEnd() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [name, lease] : leases_) next = std::min(next, lease.end);
  return next;
}

}  // namespace medley
