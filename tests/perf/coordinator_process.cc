#include "tests/perf/coordinator_process.h"

#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/security/credentials.h"

extern char** environ;

namespace medley {

Certificates::Certificates(const std::string& directory)
    : directory_(directory), authority_(MakeAuthority("benchmark", absl::Hours(2)).value()) {}

v1::TlsConfig Certificates::Issue(v1::Role role, const std::string& name) const {
  const KeyAndCertificate made =
      medley::Issue(authority_, {.name = name, .role = role}, {}, absl::Hours(1)).value();
  v1::TlsConfig tls;
  tls.set_certificate(Write(RoleName(role) + ".pem", made.certificate));
  tls.set_key(Write(RoleName(role) + "-key.pem", made.key));
  tls.set_authority(Write("authority.pem", authority_.certificate));
  return tls;
}

std::string Certificates::Write(const std::string& name, const std::string& text) const {
  std::ofstream(directory_ + "/" + name) << text;
  return directory_ + "/" + name;
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const std::optional<Certificates>& certificates,
                                                        v1::Role role) {
  return certificates.has_value() ? ChannelTls(certificates->Issue(role, "*"), v1::ROLE_COORDINATOR)
                                  : grpc::InsecureChannelCredentials();
}

std::shared_ptr<grpc::Channel> ConnectionTo(const std::string& address,
                                            const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

CoordinatorProcess::CoordinatorProcess(const std::string& program, const std::string& directory,
                                       const std::optional<Certificates>& certificates) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const std::string address_file = directory + "/address", config = directory + "/coordinator.yaml";
  std::ofstream(config) << "listen_address: 127.0.0.1:0\naddress_file: " << address_file
                        << "\nstate_directory: " << directory << "/state\nlease_seconds: " << kLeaseSeconds
                        << "\nlog_level: error\n";
  if (certificates.has_value()) {
    const v1::TlsConfig tls = certificates->Issue(v1::ROLE_COORDINATOR, "coordinator");
    std::ofstream(config, std::ios::app)
        << "tls: {certificate: " << tls.certificate() << ", key: " << tls.key()
        << ", authority: " << tls.authority() << "}\n";
  }
  const char* const arguments[] = {program.c_str(), "--config", config.c_str(), nullptr};
  if (posix_spawn(&process_, program.c_str(), nullptr, nullptr, const_cast<char* const*>(arguments),
                  environ) != 0) {
    throw std::runtime_error("cannot start " + program);
  }
  while (!std::getline(std::ifstream(address_file), address_)) {
    if (waitpid(process_, nullptr, WNOHANG) != 0) throw std::runtime_error(program + " ended");
    absl::SleepFor(absl::Milliseconds(10));
  }
}

CoordinatorProcess::~CoordinatorProcess() {
  kill(process_, SIGTERM);
  waitpid(process_, nullptr, 0);
}

double CoordinatorProcess::CpuSeconds() const {
  std::string line;
  std::getline(std::ifstream(absl::StrCat("/proc/", process_, "/stat")), line);
  std::istringstream fields(line.substr(line.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double CoordinatorProcess::StatusOf(const std::string& key) const {
  std::ifstream status(absl::StrCat("/proc/", process_, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) == 0) return std::stod(line.substr(key.size()));
  }
  return 0;
}

}  // namespace medley
