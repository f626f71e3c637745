#pragma once
#include <string>

namespace medley {

// Whether nobody but this machine reaches `host`: "localhost", "[::1]", or an address 127.x.y.z. Names that only look like one, such as
// "127.example.com", are anybody's.
bool IsLoopbackHost(const std::string& host);

// "host" of "host:port", where a port is given.
std::string HostOfAddress(const std::string& address);

}  // namespace medley
