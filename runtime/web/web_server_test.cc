#include "runtime/web/web_server.h"

#include <httplib.h>
#include <sys/select.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <thread>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/base/open_files.h"
#include "runtime/security/test_certificates.h"
#include "runtime/web/request_head.h"
#include "runtime/web/test_client.h"

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

// httplib's own is five seconds.
constexpr time_t kPatienceSeconds = 60;

std::unique_ptr<httplib::Client> ClientOf(const WebServer& server) {
  auto client = std::make_unique<httplib::Client>("http://" + server.address());
  client->set_read_timeout(kPatienceSeconds);
  return client;
}

httplib::Result SecureGet(const WebServer& server, const v1::TlsConfig& tls, bool shows_certificate = true) {
  const int port = std::stoi(server.address().substr(server.address().rfind(':') + 1));
  httplib::SSLClient client("127.0.0.1", port, shows_certificate ? tls.certificate() : "",
                            shows_certificate ? tls.key() : "");
  client.set_ca_cert_path(tls.authority().c_str());
  client.set_read_timeout(kPatienceSeconds);
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
  TestClient client(server.address());
  client.Send(head + "Host: " + server.address() + "\r\nContent-Type: application/json\r\n\r\n");
  return client.HearLine();
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

// All that is said after these heads and what comes behind them.
std::string AnswerTo(const WebServer& server, const std::string& head, const std::string& body) {
  TestClient client(server.address());
  client.Send(head + "Host: " + server.address() + "\r\nConnection: close\r\n\r\n" + body);
  return client.HearAll();
}

TEST_CASE("parts of an answer are not to be had, however many are asked for") {
  const auto server = Serve(Echo);
  std::string ranges = "0-";
  while (ranges.size() < 8000) ranges += ",0-";
  for (const std::string& range :
       {std::string("0-1"), std::string("1"), ranges, "0-1" + std::string(8000, '1')}) {
    const std::string answer = AnswerTo(*server, "GET /a HTTP/1.1\r\nrAnGe:bytes=" + range + "\r\n", "");
    CHECK_THAT(answer.substr(0, 100), Catch::StartsWith("HTTP/1.1 200 OK"));
    CHECK_THAT(answer.substr(answer.size() - 20), Catch::EndsWith("GET /a admin  "));
  }
}

TEST_CASE("a body that httplib would unpack, take apart or leave for the next request is refused") {
  const auto server = Serve(Echo);
  const std::string json = "Content-Type: application/json\r\n";
  const auto first_line = [&](const std::string& head, const std::string& body) {
    const std::string answer = AnswerTo(*server, head, body);
    return answer.find("HTTP/1.1", 1) == std::string::npos ? answer.substr(0, answer.find('\r'))
                                                           : "more than one answer: " + answer;
  };
  for (const std::string encoding : {"gzip", "br", "identity"})
    CHECK(first_line(
              "POST /c HTTP/1.1\r\nContent-Length: 2\r\n" + json + "Content-Encoding: " + encoding + "\r\n",
              "{}") == "HTTP/1.1 415 Unsupported Media Type");
  for (const std::string method : {"PUT", "PATCH", "DELETE"})
    CHECK(
        first_line(
            method + " /c HTTP/1.1\r\nContent-Length: 2\r\nContent-Type: multipart/form-data; boundary=a\r\n",
            "{}") == "HTTP/1.1 403 Forbidden");
  const std::string smuggled = "GET /d HTTP/1.1\r\nHost: " + server->address() + "\r\n\r\n";
  const std::string length = "Content-Length: " + std::to_string(smuggled.size()) + "\r\n";
  const std::string keep = "Connection: keep-alive\r\n";
  for (const std::string method : {"GET", "HEAD", "OPTIONS"})
    CHECK(first_line(method + " /c HTTP/1.1\r\n" + keep + length + json, smuggled) ==
          "HTTP/1.1 400 Bad Request");
  CHECK(first_line("POST /c HTTP/1.1\r\nContent-Length: 2\r\n" + length + json, "{}" + smuggled) ==
        "HTTP/1.1 400 Bad Request");
}

TEST_CASE("a process that has many descriptors open answers as before") {
  RaiseOpenFilesLimit();
  std::vector<int> open;
  while (open.empty() || open.back() < FD_SETSIZE) {
    open.push_back(dup(STDERR_FILENO));
    if (open.back() < 0) break;
  }
  if (open.back() < 0) {
    WARN("this system allows no more than " << open.size() << " descriptors");
    for (const int descriptor : open) close(descriptor);
    return;
  }
  const auto server = Serve(Echo);
  const std::string answer = AnswerTo(*server, "GET /a HTTP/1.1\r\n", "");
  for (const int descriptor : open) close(descriptor);
  CHECK_THAT(answer, Catch::StartsWith("HTTP/1.1 200 OK") && Catch::EndsWith("GET /a admin  "));
}

TEST_CASE("what is too large is refused, and it is said what and how much there may be") {
  const auto server = Serve(Echo);
  const auto answer = [&](const std::string& request) {
    TestClient client(server->address());
    client.Send(request);
    return client.HearAll();
  };
  const std::string line = "GET / HTTP/1.1\r\nHost: " + server->address() + "\r\n";
  std::string many = line;
  for (int i = 0; i < RequestHead::kMostHeaders; ++i) many += "X: 1\r\n";
  for (const auto& [request, status, why] :
       {std::tuple("GET /" + std::string(RequestHead::kMostLineBytes, 'a'), "HTTP/1.1 414 ",
                   "the request line may have 8192 bytes\n"),
        {line + "X: " + std::string(RequestHead::kMostLineBytes, 'a'), "HTTP/1.1 431 ",
         "a header may have 8192 bytes\n"},
        {many + "\r\n", "HTTP/1.1 431 ", "a request may have 100 headers\n"}}) {
    const std::string said = answer(request);
    CHECK_THAT(said, Catch::StartsWith(status) && Catch::EndsWith(why));
    CHECK_THAT(said, Catch::Contains("\r\nX-Frame-Options: DENY\r\n") &&
                         Catch::Contains("\r\nConnection: close\r\n"));
  }
  CHECK_THAT(answer("this is no request\r\nHost: a\r\n\r\n"), Catch::StartsWith("HTTP/1.1 400 "));
  // Just as much as there may be.
  const std::string path = "/" + std::string(8000, 'a');
  CHECK(ClientOf(*server)->Get(path.c_str())->body == "GET " + path + " admin  ");
}

TEST_CASE("clients that say nothing, or not all of it, hold up nobody") {
  const auto server = Serve(Echo);
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 150; ++i) {  // more than there are threads
    silent.push_back(std::make_unique<TestClient>(server->address()));
    if (i % 2 == 0) silent.back()->Send("GET / HTTP/1.1\r\nX: ");
  }
  CHECK(ClientOf(*server)->Get("/a")->body == "GET /a admin  ");
}

TEST_CASE("a connection is for many requests, one after another") {
  const auto server = Serve(Echo);
  TestClient client(server->address());
  const std::string head = " HTTP/1.1\r\nHost: " + server->address() + "\r\n";
  const std::string post = "POST /b" + head + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
  client.Send("GET /a" + head + "\r\n" + post + post + "GET /c" + head + "Connection: close\r\n\r\n");
  const std::string all = client.HearAll();
  size_t answers = 0;
  for (size_t at = all.find("HTTP/1.1 200 OK"); at != std::string::npos;
       at = all.find("HTTP/1.1 200 OK", at + 1))
    ++answers;
  CHECK(answers == 4);
  CHECK_THAT(all, Catch::Contains("POST /b admin  {}") && Catch::EndsWith("GET /c admin  "));
}

TEST_CASE("every answer says that nobody may frame it, and what it is") {
  const auto server = Serve(Echo);
  for (const char* path : {"/a", "/"}) {
    const auto answer = ClientOf(*server)->Get(path);
    CHECK(answer->get_header_value("X-Frame-Options") == "DENY");
    CHECK_THAT(answer->get_header_value("Content-Security-Policy"),
               Catch::Contains("frame-ancestors 'none'"));
    CHECK(answer->get_header_value("Referrer-Policy") == "no-referrer");
    CHECK(answer->get_header_value("X-Content-Type-Options") == "nosniff");
  }
  const auto refused = ClientOf(*server)->Put("/a", "{}", "application/json");
  CHECK(refused->status == 404);
  CHECK(refused->get_header_value("X-Frame-Options") == "DENY");
}

TEST_CASE("streams leave threads for others") {
  absl::Notification end;
  const auto server = Serve([&](const WebRequest& request) {
    WebAnswer answer;
    if (request.path == "/stream")
      answer.stream = [&end](const std::function<bool(const std::string&)>& write) {
        write("begun\n");
        end.WaitForNotification();
      };
    return answer;
  });
  std::vector<std::unique_ptr<TestClient>> readers;
  const std::string request = "GET /stream HTTP/1.1\r\nHost: " + server->address() + "\r\n\r\n";
  for (int i = 0; i < 48; ++i) {
    readers.push_back(std::make_unique<TestClient>(server->address()));
    readers.back()->Send(request);
    CHECK(readers.back()->HearLine() == "HTTP/1.1 200 OK");
  }
  const auto refused = ClientOf(*server)->Get("/stream");
  CHECK(refused->status == 503);
  CHECK(refused->body == "no more than 48 streams may be open here\n");
  CHECK(ClientOf(*server)->Get("/a")->status == 200);
  end.Notify();
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

TEST_CASE("who answers is told when nobody waits any more") {
  absl::Notification asked, went;
  const auto server = Serve([&](const WebRequest& request) -> WebAnswer {
    if (!request.is_open()) return {};
    asked.Notify();
    while (request.is_open()) std::this_thread::yield();
    went.Notify();
    return {};
  });
  {
    TestClient client(server->address());
    client.Send("GET /a HTTP/1.1\r\nHost: " + server->address() + "\r\n\r\n");
    CHECK(asked.WaitForNotificationWithTimeout(absl::Minutes(1)));
    CHECK_FALSE(went.HasBeenNotified());
  }
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
  CHECK(status.message() ==
        "http_address: cannot listen at " + server->address() + ": Address already in use");
}

}  // namespace
}  // namespace medley
