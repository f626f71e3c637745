#include "runtime/web/web_server.h"

#include <arpa/inet.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/security/test_certificates.h"

namespace medley {
namespace {

WebAnswer Echo(const WebRequest& request) {
  return {.body = absl::StrCat(request.method, " ", request.path, " ", RoleName(request.caller.role), " ",
                               request.caller.name, " ", request.body)};
}

std::unique_ptr<WebServer> Serve(WebServer::Handler handler, const v1::TlsConfig* tls = nullptr) {
  auto started = WebServer::Start(
      {.field = "http_address", .address = "127.0.0.1:0", .tls = tls, .handler = std::move(handler)});
  INFO(started.status());
  REQUIRE(started.ok());
  return *std::move(started);
}

std::unique_ptr<httplib::Client> ClientOf(const WebServer& server) {
  return std::make_unique<httplib::Client>("http://" + server.address());
}

httplib::Result SecureGet(const WebServer& server, const v1::TlsConfig& tls, bool shows_certificate = true) {
  const int port = std::stoi(server.address().substr(server.address().rfind(':') + 1));
  httplib::SSLClient client("127.0.0.1", port, shows_certificate ? tls.certificate() : "",
                            shows_certificate ? tls.key() : "");
  client.set_ca_cert_path(tls.authority().c_str());
  return client.Get("/a");
}

TEST_CASE("what is asked is answered; in the clear everybody is an admin") {
  const auto server = Serve(Echo);
  const auto client = ClientOf(*server);
  CHECK(client->Get("/a/b")->body == "GET /a/b admin  ");
  CHECK(client->Post("/c", "{}", "application/json")->body == "POST /c admin  {}");
  CHECK(client->Get("/")->get_header_value("X-Content-Type-Options") == "nosniff");
}

TEST_CASE("another page's requests are refused") {
  const auto server = Serve(Echo);
  const auto client = ClientOf(*server);
  CHECK(client->Post("/c", "{}", "text/plain")->status == 403);
  CHECK(client->Post("/c", {{"Origin", "https://elsewhere.example"}}, "{}", "application/json")->status ==
        403);
  CHECK(client->Post("/c", {{"Origin", "http://" + server->address()}}, "{}", "application/json")->status ==
        200);
  CHECK(client->Get("/c", {{"Host", "elsewhere.example"}})->body ==
        "this server is not known as \"elsewhere.example\"\n");
  CHECK(client->Get("/c", {{"Host", "localhost:1"}})->status == 200);
  // Names may begin with digits.
  CHECK(client->Get("/c", {{"Host", "127.elsewhere.example:1"}})->status == 403);
}

// The status line of the answer to `head`, behind which nothing comes.
std::string FirstLineOf(const WebServer& server, const std::string& head) {
  const int port = std::stoi(server.address().substr(server.address().rfind(':') + 1));
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port)), .sin_addr = {}, .sin_zero = {}};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
  const std::string bytes = head + "Host: " + server.address() + "\r\nContent-Type: application/json\r\n\r\n";
  REQUIRE(write(socket, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  std::string line;
  for (char byte = 0; read(socket, &byte, 1) == 1 && byte != '\r';) line.push_back(byte);
  close(socket);
  return line;
}

TEST_CASE("a body without an end, or one that is too large, is refused before it is read") {
  const auto server = Serve(Echo);
  for (const std::string method : {"POST", "PUT", "GET"})
    CHECK(FirstLineOf(*server, method + " /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n") ==
          "HTTP/1.1 411 Length Required");
  for (const std::string method : {"POST", "PUT"})
    CHECK(FirstLineOf(*server, method + " /c HTTP/1.1\r\n") == "HTTP/1.1 411 Length Required");
  CHECK(FirstLineOf(*server, "POST /c HTTP/1.1\r\nContent-Length: 16777217\r\n") ==
        "HTTP/1.1 413 Payload Too Large");
  CHECK(FirstLineOf(*server, "POST /c HTTP/1.1\r\nContent-Length: many\r\n") == "HTTP/1.1 400 Bad Request");
}

TEST_CASE("a stream comes as it is written, and ends when nobody reads any more") {
  absl::Notification went;
  const auto server = Serve([&](const WebRequest& request) {
    WebAnswer answer;
    answer.stream = [&went, endless = request.path ==
                                      "/endless"](const std::function<bool(const std::string&)>& write) {
      for (int i = 0; endless || i < 3; ++i) {
        if (!write(absl::StrCat(i, "\n"))) return went.Notify();
      }
    };
    return answer;
  });
  const auto client = ClientOf(*server);
  CHECK(client->Get("/three")->body == "0\n1\n2\n");
  size_t read = 0;
  (void)client->Get("/endless", [&](const char*, size_t size) { return (read += size) < 1000; });
  CHECK(went.WaitForNotificationWithTimeout(absl::Minutes(1)));
}

TEST_CASE("over TLS a caller is who the certificate says, and nobody without one") {
  const TestCertificates certificates, others("others");
  const v1::TlsConfig served = certificates.Issue(v1::ROLE_COORDINATOR),
                      viewer = certificates.Issue(v1::ROLE_VIEWER);
  const auto server = Serve(Echo, &served);
  CHECK(SecureGet(*server, viewer)->body == "GET /a viewer viewer-1 ");
  CHECK(SecureGet(*server, viewer, false)->body == "GET /a unspecified  ");
  v1::TlsConfig stranger = others.Issue(v1::ROLE_ADMIN);
  stranger.set_authority(served.authority());
  CHECK_FALSE(SecureGet(*server, stranger));
  CHECK_FALSE(SecureGet(*server, others.Issue(v1::ROLE_ADMIN)));
  CHECK_FALSE(ClientOf(*server)->Get("/a"));
}

TEST_CASE("whose authority is believed no more is refused from the next connection on") {
  const TestCertificates certificates, later("a later authority");
  const TemporaryDirectory directory;
  v1::TlsConfig own = certificates.Issue(v1::ROLE_COORDINATOR);
  own.set_authority(directory.File("authority.pem"));
  std::ofstream(own.authority()) << certificates.authority().certificate;
  const auto server = Serve(Echo, &own);
  const v1::TlsConfig viewer = certificates.Issue(v1::ROLE_VIEWER);
  CHECK(SecureGet(*server, viewer)->body == "GET /a viewer viewer-1 ");
  std::ofstream(own.authority()) << later.authority().certificate;
  CHECK_FALSE(SecureGet(*server, viewer));
}

TEST_CASE("an address in use is said to be") {
  const auto server = Serve(Echo);
  const absl::Status status =
      WebServer::Start({.field = "http_address", .address = server->address(), .handler = Echo}).status();
  CHECK(absl::IsUnavailable(status));
  CHECK(status.message() == "http_address: cannot listen at " + server->address() + "; is it in use?");
}

}  // namespace
}  // namespace medley
