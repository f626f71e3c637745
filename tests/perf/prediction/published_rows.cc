#include "tests/perf/prediction/published_rows.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"
#include "runtime/wire/yaml_message.h"

namespace medley {
namespace {

class Record {
 public:
  Record(const std::map<std::string, int>& columns, const std::vector<std::string>& fields)
      : columns_(columns), fields_(fields) {}

  const std::string& Text(const std::string& column) const { return fields_[columns_.at(column)]; }
  double Number(const std::string& column) const {
    double value = 0;
    return absl::SimpleAtod(Text(column), &value) ? value : 0;
  }
  int Whole(const std::string& column) const { return static_cast<int>(Number(column)); }

 private:
  const std::map<std::string, int>& columns_;
  const std::vector<std::string>& fields_;
};

PublishedRow RowOf(const Record& record, int number) {
  return {.record = number,
          .source = record.Text("source"),
          .model = record.Text("model"),
          .recompute = record.Text("recompute"),
          .device = record.Text("gpu_type"),
          .interconnect = record.Text("interconnect"),
          .note = record.Text("note"),
          .layers = record.Whole("layers"),
          .hidden = record.Whole("hidden"),
          .heads = record.Whole("heads"),
          .key_value_heads = record.Whole("kv_heads"),
          .feed_forward = record.Whole("ffn"),
          .vocabulary = record.Whole("vocab"),
          .sequence = record.Whole("seq"),
          .global_batch = record.Whole("global_batch"),
          .micro_batch = record.Whole("micro_batch"),
          .ranks = record.Whole("tp"),
          .stages = record.Whole("pp"),
          .chunks_per_stage = record.Whole("vpp"),
          .replicas = record.Whole("dp"),
          .devices = record.Whole("gpus"),
          .step_seconds = record.Number("iter_time_s"),
          .tera_flops_per_device = record.Number("tflops_per_gpu"),
          .memory_gibibytes = record.Number("memory_gib")};
}

constexpr const char* kColumns[] = {
    "source", "model",    "recompute", "gpu_type", "interconnect", "note",           "layers",      "hidden",
    "heads",  "kv_heads", "ffn",       "vocab",    "seq",          "global_batch",   "micro_batch", "tp",
    "pp",     "vpp",      "dp",        "gpus",     "iter_time_s",  "tflops_per_gpu", "memory_gib"};

}  // namespace

absl::StatusOr<std::vector<std::vector<std::string>>> ParseCsv(const std::string& text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record;
  std::string field;
  bool quoted = false;
  int line = 1, opened_at = 0;
  const auto end_field = [&] {
    record.push_back(field);
    field.clear();
  };
  const auto end_record = [&] {
    if (record.empty() && field.empty()) return;
    end_field();
    records.push_back(record);
    record.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
      opened_at = line;
    } else if (c == ',') {
      end_field();
    } else if (c == '\n') {
      end_record();
    } else if (c != '\r') {
      field += c;
    }
  }
  if (quoted) return absl::InvalidArgumentError(absl::StrCat(opened_at, ": a quote is not closed"));
  end_record();
  return records;
}

absl::StatusOr<std::vector<PublishedRow>> ReadPublishedRows(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadDocumentFile(path));
  const absl::StatusOr<std::vector<std::vector<std::string>>> records = ParseCsv(text);
  if (!records.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ":", records.status().message()));
  std::map<std::string, int> columns;
  if (!records->empty()) {
    for (const std::string& name : records->front()) columns.emplace(name, static_cast<int>(columns.size()));
  }
  for (const char* name : kColumns) {
    if (columns.count(name) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":1: the column ", name, " is missing"));
    }
  }
  std::vector<PublishedRow> rows;
  for (size_t i = 1; i < records->size(); ++i) {
    const std::vector<std::string>& fields = (*records)[i];
    if (fields.size() != columns.size()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": record ", i + 1, " has ", fields.size(),
                                                     " fields; the header has ", columns.size()));
    }
    rows.push_back(RowOf(Record(columns, fields), static_cast<int>(i) + 1));
  }
  return rows;
}

}  // namespace medley
