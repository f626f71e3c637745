#pragma once
#include <httplib.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/security/certificate.h"
#include "runtime/web/web_connection.h"

namespace medley {

// A connection during one request, as httplib reads and writes it: calls wait, but for nobody who is silent for long. One thread.
class WebStream final : public httplib::Stream {
 public:
  // Both directions: bytes that do not come, or are not taken, within this are nobody's.
  static constexpr absl::Duration kSilenceLimit = absl::Seconds(10);
  // Of a request, after the first kSilenceLimit: what comes more slowly is nobody's either.
  static constexpr int kLeastBytesPerSecond = 1024;

  explicit WebStream(WebConnection& connection);
  ~WebStream() override;
  // The one that this thread's request is on.
  static WebStream& Current();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* bytes, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  // httplib asks whether it is one for select(), of whose kind there are 1024; what waits here does so by poll().
  socket_t socket() const override { return 0; }

  WebConnection& connection() { return connection_; }
  // No further request comes on this connection.
  void EndAfterAnswer() { ends_ = true; }
  bool ends() const { return ends_; }
  // Its request was not there in time.
  bool was_silent() const { return was_silent_; }
  // Who asks: is looked up once.
  std::optional<absl::StatusOr<Certificate>> who;

 private:
  WebConnection& connection_;
  const absl::Time began_;
  size_t read_bytes_ = 0;
  bool ends_ = false, was_silent_ = false;
};

}  // namespace medley
