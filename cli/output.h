#pragma once

namespace medley {

// What commands print on standard output.
enum class Output {
  kText,
  kJson,     // the coordinator's replies, one line each
  kCluster,  // of `nodes`: a file for `plan --cluster`
};

}  // namespace medley
