#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"

// Training configurations that others published or measured, as a table has them.
namespace medley {

// 0 or empty: the source does not say.
struct PublishedRow {
  int record = 0;  // of the file, from 1, which is the header
  std::string source, model, recompute, device, interconnect, note;
  int layers = 0, hidden = 0, heads = 0, key_value_heads = 0, feed_forward = 0, vocabulary = 0, sequence = 0;
  int global_batch = 0, micro_batch = 0, ranks = 0, stages = 0, chunks_per_stage = 0, replicas = 0,
      devices = 0;
  double step_seconds = 0, tera_flops_per_device = 0, memory_gibibytes = 0;
};

// Reads comma-separated values (RFC 4180) with a header that names every column of PublishedRow as the table does.
// A number that is none counts as not said: sources write "4 (8)" for either of two runs.
// NotFound and others of ReadDocumentFile; InvalidArgument "FILE:LINE: ..." if a column lacks or a row is of another width.
absl::StatusOr<std::vector<PublishedRow>> ReadPublishedRows(const std::string& path);

// The records of comma-separated values; the last line needs no end. InvalidArgument: a quote is not closed; names its line.
absl::StatusOr<std::vector<std::vector<std::string>>> ParseCsv(const std::string& text);

}  // namespace medley
