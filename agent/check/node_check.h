#pragma once
#include <string>
#include <vector>

#include "proto/medley/v1/cluster.pb.h"
#include "proto/medley/v1/node_check.pb.h"

namespace medley {

struct NodeCheckOptions {
  std::vector<v1::Device> devices;
  std::vector<std::string> directories;          // of data and checkpoints
  std::vector<std::string> allowed_directories;  // AgentConfig's: others are not written to
};

// Looks at this machine before jobs do: devices, cores and their memory's nodes, limits of the process, huge pages, free memory,
// directories. Blocks for the writing of 64 MiB into each directory. Without Node.node, which is the caller's to know.
v1::NodeCheck CheckNode(const NodeCheckOptions& options);

}  // namespace medley
