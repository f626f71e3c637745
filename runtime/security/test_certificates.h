#pragma once
#include <string>

#include "proto/medley/v1/config.pb.h"
#include "runtime/base/files/temporary_directory.h"
#include "runtime/security/authority.h"

namespace medley {

// An authority and certificates by it, as files of a folder that ends with it.
class TestCertificates {
 public:
  explicit TestCertificates(const std::string& name = "a test");

  const KeyAndCertificate& authority() const { return authority_; }
  // The files of a new certificate, under names that begin with `file`. A lifetime below zero has passed.
  v1::TlsConfig Issue(const std::string& file, const Identity& identity,
                      absl::Duration lifetime = absl::Hours(1)) const;
  v1::TlsConfig Issue(v1::Role role) const {
    return Issue(RoleName(role), {.name = RoleName(role) + "-1", .role = role});
  }

 private:
  const TemporaryDirectory directory_;
  const KeyAndCertificate authority_;
};

}  // namespace medley
