#pragma once
#include <string>

namespace medley {

// Why the coordinator at `address` could not be reached, for people: what the transport's message is about,
// without its dump. "no coordinator at 127.0.0.1:7070: connection refused. Start one (medley up), or ...".
std::string DescribeUnreachable(const std::string& address, const std::string& transport_message);

// Whether that message is of a connection on which nothing has come for too long.
bool IsSilence(const std::string& transport_message);

}  // namespace medley
