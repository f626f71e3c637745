#include "runtime/web/connection_gate.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "runtime/web/test_client.h"

namespace medley {
namespace {

// Answers each request by its first line.
bool EchoLine(WebConnection& connection) {
  std::string line;
  bool is_ended = false;
  while (!is_ended) {  // the head is there as a whole
    char byte = 0;
    size_t size = 1;
    if (connection.Read(&byte, size) != WebConnection::Outcome::kDone) return false;
    line.push_back(byte);
    is_ended = line.size() >= 4 && line.substr(line.size() - 4) == "\r\n\r\n";
  }
  line.resize(line.find('\r') + 1);
  size_t size = line.size();
  return connection.Write(line.data(), size) == WebConnection::Outcome::kDone;
}

ConnectionGate::Options Patient() {
  return {.handshake_limit = absl::Hours(1),
          .head_limit = absl::Hours(1),
          .idle_limit = absl::Hours(1),
          .headers = "X-A: b\r\n",
          .serve = EchoLine};
}

// `says` is there when the gate first looks.
std::unique_ptr<TestClient> Connect(ConnectionGate& gate, const std::string& says = "") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  auto client = std::make_unique<TestClient>(ends[0]);
  client->Send(says);
  gate.Add(ends[1]);
  return client;
}

TEST_CASE("requests come to a worker whole, one after another") {
  ConnectionGate gate(Patient());
  const auto client = Connect(gate);
  client->Send("GET /a\r\n\r\nGET /b\r\n\r\nGET ");
  CHECK(client->HearLine() == "GET /a");
  CHECK(client->HearLine() == "GET /b");
  client->Send("/c\r\n\r\n");
  CHECK(client->HearLine() == "GET /c");
}

TEST_CASE("with one worker, those who say nothing hold up nobody") {
  ConnectionGate gate(Patient());
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(Connect(gate));
    silent.back()->Send("GET");
  }
  const auto client = Connect(gate);
  client->Send("GET /a\r\n\r\n");
  CHECK(client->HearLine() == "GET /a");
}

TEST_CASE("who is silent for too long is closed, and told so in the midst of a head") {
  ConnectionGate::Options options = Patient();
  SECTION("before a request") {
    options.idle_limit = absl::Milliseconds(20);
    ConnectionGate gate(std::move(options));
    CHECK(Connect(gate)->HearAll().empty());
  }
  SECTION("between requests") {
    options.idle_limit = absl::Seconds(1);
    ConnectionGate gate(std::move(options));
    const auto client = Connect(gate);
    client->Send("GET /a\r\n\r\n");
    const std::string heard = client->HearAll();
    CHECK((heard == "GET /a\r" || heard.empty()));  // a busy machine may have been late with the request, too
  }
  SECTION("within a head") {
    options.head_limit = absl::Milliseconds(20);
    ConnectionGate gate(std::move(options));
    const auto client = Connect(gate);
    client->Send("GET /a\r\n");
    CHECK(client->HearAll() ==
          "HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
          "Content-Length: 41\r\nX-A: b\r\n\r\nthe request's head must come within 20ms\n");
  }
  SECTION("within TLS's handshake") {
    options.handshake_limit = absl::Milliseconds(20);
    const std::unique_ptr<SSL_CTX, OpensslFree<SSL_CTX_free>> tls(SSL_CTX_new(TLS_server_method()));
    options.tls = tls.get();
    ConnectionGate gate(std::move(options));
    CHECK(Connect(gate)->HearAll().empty());
  }
}

TEST_CASE("where there are too many, the one that is silent for longest goes") {
  ConnectionGate::Options options = Patient();
  options.most_connections = 3;
  ConnectionGate gate(std::move(options));
  const auto first = Connect(gate), second = Connect(gate), third = Connect(gate);
  for (const auto& client : {first.get(), third.get()}) {
    client->Send("GET /a\r\n\r\n");
    CHECK(client->HearLine() == "GET /a");
  }
  const auto fourth = Connect(gate);
  CHECK(second->HearAll().empty());
  for (const auto& client : {first.get(), third.get(), fourth.get()}) {
    client->Send("GET /b\r\n\r\n");
    CHECK(client->HearLine() == "GET /b");
  }
}

TEST_CASE("where all are served or wait to be, one more is closed") {
  absl::Notification end;
  ConnectionGate::Options options = Patient();
  options.most_connections = 3;
  options.serve = [&](WebConnection& connection) {
    end.WaitForNotification();
    return EchoLine(connection);
  };
  ConnectionGate gate(std::move(options));
  std::vector<std::unique_ptr<TestClient>> served;
  for (int i = 0; i < 3; ++i) served.push_back(Connect(gate, "GET /a\r\n\r\n"));
  const auto further = Connect(gate, "GET /b\r\n\r\n");
  CHECK(further->HearAll().empty());
  end.Notify();
  for (const auto& client : served) CHECK(client->HearLine() == "GET /a");
}

}  // namespace
}  // namespace medley
