#pragma once
#include <string>

namespace medley {

// A client of a server on this machine that sends what it is told, whether it is HTTP or not. Its failures stop the test.
class TestClient {
 public:
  explicit TestClient(const std::string& address);  // "127.0.0.1:80"
  explicit TestClient(int socket) : socket_(socket) {}
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  // As much as the server takes: it may have closed the connection.
  void Send(const std::string& bytes);
  // Up to the end of the line, which is left out, or of the connection.
  std::string HearLine();
  // Up to the end of the connection.
  std::string HearAll();

 private:
  const int socket_;
};

}  // namespace medley
