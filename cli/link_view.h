#pragma once
#include <string>

#include "proto/medley/v1/coordinator.pb.h"

// Links as text for people; each ends with a line break, or is empty. Pure: the time is an argument.
// `columns`: of the terminal, so that nothing wraps; 0: lines may be as long as they are.
namespace medley {

// The matrix of latencies (above the diagonal) and bandwidths (below it) of up to twelve devices, which have
// numbers where their names need too much room, then every measurement with its age and what it was made
// with.
std::string FormatLinks(const v1::ListLinksResponse& links, double now_unix_seconds, size_t columns = 0);

// Seconds and rates by size of one link, both of a message and of an exchange, then how it was measured.
std::string FormatLink(const v1::LinkProfile& link, double now_unix_seconds, size_t columns = 0);

// Which way of summing would be taken, and how long each would need.
std::string FormatAllReduce(const v1::AllReduceExplanation& explanation, size_t columns = 0);

// What the units of a job have sent to and received from each other until the traced step.
std::string FormatTraffic(const v1::Trace& trace, size_t columns = 0);

}  // namespace medley
