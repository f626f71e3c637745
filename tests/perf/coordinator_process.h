#pragma once
#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "proto/medley/v1/config.pb.h"
#include "runtime/security/authority.h"

namespace medley {

inline constexpr double kLeaseSeconds = 6;

// Certificates of an authority of its own, as files in `directory`, which must exist.
class Certificates {
 public:
  explicit Certificates(const std::string& directory);
  v1::TlsConfig Issue(v1::Role role, const std::string& name) const;

 private:
  std::string Write(const std::string& name, const std::string& text) const;
  const std::string directory_;
  const KeyAndCertificate authority_;
};

// Of a client of a coordinator that shows a certificate of `role`. Without certificates: in the clear.
std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const std::optional<Certificates>& certificates,
                                                        v1::Role role);

// A connection of its own: gRPC would share one between channels to an address.
std::shared_ptr<grpc::Channel> ConnectionTo(const std::string& address,
                                            const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// medley-coordinator on loopback, until the end of this object, with as many descriptors as this machine allows, which this process gets,
// too. Throws std::runtime_error where it does not start.
class CoordinatorProcess {
 public:
  // `program`: its file. `directory`: for its state, exists.
  CoordinatorProcess(const std::string& program, const std::string& directory,
                     const std::optional<Certificates>& certificates);
  ~CoordinatorProcess();
  const std::string& address() const { return address_; }

  double CpuSeconds() const;
  // Of /proc/PID/status, as in "Threads:" and "VmRSS:" (KiB).
  double StatusOf(const std::string& key) const;

 private:
  pid_t process_ = 0;
  std::string address_;
};

}  // namespace medley
