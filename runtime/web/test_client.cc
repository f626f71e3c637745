#include "runtime/web/test_client.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace medley {
namespace {

void Demand(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

TestClient::TestClient(const std::string& address)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  sockaddr_in to = {
      .sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port)), .sin_addr = {}, .sin_zero = {}};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Demand(connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
}

TestClient::~TestClient() { close(socket_); }

void TestClient::Send(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t some = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (some <= 0) return;
    sent += static_cast<size_t>(some);
  }
}

std::string TestClient::HearLine() {
  std::string line;
  for (char byte = 0; recv(socket_, &byte, 1, 0) == 1 && byte != '\r';) line.push_back(byte);
  return line;
}

std::string TestClient::HearAll() {
  std::string all;
  char bytes[4096];
  for (ssize_t some = 0; (some = recv(socket_, bytes, sizeof(bytes), 0)) > 0;)
    all.append(bytes, static_cast<size_t>(some));
  return all;
}

}  // namespace medley
