#include "tests/perf/prediction/published_runs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

absl::Status Excluded(const std::string& reason) { return absl::FailedPreconditionError(reason); }

// Megatron pads the vocabulary so that its ranks have equal multiples of 128 rows.
int PaddedVocabulary(int vocabulary, int ranks) {
  const int multiple = 128 * ranks;
  return (vocabulary + multiple - 1) / multiple * multiple;
}

// What all studies of GPT models by Megatron-LM say in the same way.
PublishedRun MegatronRun(const PublishedRow& row) {
  PublishedRun published{.record = row.record, .study = StudyOf(row)};
  TrainingRun& run = published.run;
  ModelConfig& model = run.shape.model;
  run.ranks = std::max(1, row.ranks);
  model.layers = row.layers;
  model.hidden = row.hidden;
  model.heads = row.heads > 0 ? row.heads : std::max(1, row.hidden / 128);
  model.feed_forward = row.feed_forward > 0 ? row.feed_forward : 4 * row.hidden;
  model.vocabulary = PaddedVocabulary(row.vocabulary > 0 ? row.vocabulary : 51200, run.ranks);
  model.context = row.sequence;
  run.shape.sequence = row.sequence;
  run.shape.global_batch_sequences = row.global_batch;
  run.micro_batch_sequences = std::max(1, row.micro_batch);
  run.stages = std::max(1, row.stages);
  run.chunks_per_stage = std::max(1, row.chunks_per_stage);
  run.replicas = std::max(1, row.replicas);
  run.recompute = row.recompute == "full"        ? Recompute::kLayers
                  : row.recompute == "selective" ? Recompute::kAllButAttention
                                                 : Recompute::kNone;
  published.step_seconds = row.step_seconds;
  published.memory_gibibytes = row.memory_gibibytes;
  return published;
}

// Interleaving that is used but not printed: as many chunks, up to four, as the layers allow.
int UsualChunks(const TrainingRun& run) {
  const int layers = run.shape.model.layers / run.stages;
  if (run.stages == 1 || run.shape.model.layers % run.stages != 0 || run.MicroBatches() % run.stages != 0)
    return 1;
  for (int chunks = 4; chunks > 1; --chunks) {
    if (layers % chunks == 0) return chunks;
  }
  return 1;
}

absl::StatusOr<PublishedRun> VtrainRun(const PublishedRow& row) {
  PublishedRun published = MegatronRun(row);
  published.kind = "A100-40";
  published.software = "megatron-lm, one node";
  if (absl::StrContains(row.source, "multi")) {
    published.software = "megatron-lm, several nodes";
    published.run.network_bytes_per_second = 12.5e9;  // four HDR adapters for eight devices
  }
  return published;
}

absl::StatusOr<PublishedRun> KorthikantiRun(const PublishedRow& row) {
  PublishedRun published = MegatronRun(row);
  published.kind = "A100-80";
  published.software = "megatron-lm 2022";
  published.predecessor = "megatron-lm 2021";
  published.run.sequence_parallel = absl::StrContains(row.note, "sequence parallel") &&
                                    !absl::StrContains(row.note, "no sequence parallel");
  if (row.recompute == "selective") published.run.sequence_parallel = true;
  return published;
}

// The scaling table of 2021 and the comparison with ZeRO-3 beside it.
absl::StatusOr<PublishedRun> Megatron2021Run(const PublishedRow& row) {
  PublishedRun published = MegatronRun(row);
  published.kind = "A100-80";
  published.software = "megatron-lm 2021";
  TrainingRun& run = published.run;
  if (!absl::StrContains(row.device, "A100")) return Excluded("Megatron-LM of 2019 on V100");
  if (absl::StrContains(row.note, "ZeRO-3")) return Excluded("ZeRO-3 of another system (DeepSpeed)");
  // Not printed for the scaling table: what fits beside the layers that are made again.
  if (row.micro_batch == 0) run.micro_batch_sequences = run.stages > 1 ? 1 : run.ranks < 8 ? 16 : 4;
  if (row.chunks_per_stage == 0) run.chunks_per_stage = UsualChunks(run);
  return published;
}

absl::StatusOr<PublishedRun> MegatronH100Run(const PublishedRow& row) {
  PublishedRun published = MegatronRun(row);
  published.kind = "H100-80";
  published.software = "megatron-core 2024";
  TrainingRun& run = published.run;
  run.sequence_parallel = run.fused_attention = run.shards_optimizer = run.overlaps_exchanges = true;
  run.network_bytes_per_second = 50e9;  // a 400 Gb/s adapter each
  run.micro_batch_sequences = 1;
  run.chunks_per_stage = UsualChunks(run);
  // Printed are model FLOPs by the formula of Narayanan et al. 2021 without recomputation.
  const ModelConfig& model = run.shape.model;
  const double flops =
      72.0 * row.global_batch * row.sequence * model.layers * model.hidden * model.hidden *
      (1 + row.sequence / (6.0 * model.hidden) + row.vocabulary / (12.0 * model.hidden * model.layers));
  published.step_seconds = flops / (row.devices * row.tera_flops_per_device * 1e12);
  return published;
}

// "7/9/9/9" of a plan's note: blocks of each stage, embedding and head counted.
std::vector<int> BlocksOfStages(const std::string& note) {
  const std::string mark = "pseudo-layers) ";
  const size_t at = note.find(mark);
  std::vector<int> blocks;
  if (at == std::string::npos) return blocks;
  const std::string list = note.substr(at + mark.size(), note.find(';', at) - at - mark.size());
  for (const absl::string_view part : absl::StrSplit(list, '/')) {
    int count = 0;
    if (absl::SimpleAtoi(part, &count)) blocks.push_back(count);
  }
  return blocks;
}

absl::StatusOr<PublishedRun> SailorRun(const PublishedRow& row) {
  PublishedRun published = MegatronRun(row);
  if (!absl::StrContains(row.device, "GH-96")) return Excluded("a kind of which no run was published");
  published.kind = "GH200-96";
  published.software = "megatron-deepspeed";
  TrainingRun& run = published.run;
  run.devices_per_node = 4;
  run.chunk_layers = BlocksOfStages(row.note);
  if (static_cast<int>(run.chunk_layers.size()) != run.stages)
    return Excluded("the layers of its stages are not said");
  --run.chunk_layers.front();
  --run.chunk_layers.back();
  if (std::accumulate(run.chunk_layers.begin(), run.chunk_layers.end(), 0) != row.layers) {
    return Excluded("its plan is of another model than it says");
  }
  return published;
}

// InternLM's own software: Llama's layers, fused attention, the optimizer's state shared by replicas.
absl::StatusOr<PublishedRun> InternEvoRun(const PublishedRow& row) {
  PublishedRun published = MegatronRun(row);
  published.kind = "A100-80";
  published.software = "internevo";
  TrainingRun& run = published.run;
  ModelConfig& model = run.shape.model;
  model.family = ModelFamily::kLlama;
  model.feed_forward = (8 * row.hidden / 3 + 255) / 256 * 256;
  model.vocabulary = row.vocabulary > 0 ? row.vocabulary : 103168;  // of InternLM's first models
  model.tied_head = false;
  run.fused_attention = run.shards_optimizer = true;
  run.network_bytes_per_second = 6.25e9;  // four adapters of 100 Gb/s for eight devices
  return published;
}

absl::StatusOr<PublishedRun> LlmCRun(const PublishedRow& row) {
  if (absl::StrContains(row.note, "inconsistent")) return Excluded("its source contradicts itself");
  PublishedRun published = MegatronRun(row);
  published.kind = absl::StrContains(row.device, "H100") ? "H100-80" : "A100-80";
  published.software = "llm.c";
  published.run.fused_attention = published.run.shards_optimizer = true;
  published.run.recompute = Recompute::kNone;
  return published;
}

struct Mpt {
  const char* name;
  int layers, hidden, heads;
};
// The shapes that MosaicML's names stand for (llm-foundry, scripts/train/yamls/pretrain); the table has the numbers of
// parameters that they give.
constexpr Mpt kMpts[] = {{"MPT 125m", 12, 768, 12}, {"MPT 350m", 24, 1024, 16}, {"MPT 760m", 24, 1536, 12},
                         {"MPT 1b", 24, 2048, 16},  {"MPT 3b", 32, 2560, 20},   {"MPT 7b", 32, 4096, 32},
                         {"MPT 13b", 40, 5120, 40}, {"MPT 30b", 48, 7168, 56},  {"MPT 70b", 80, 8192, 64}};

absl::StatusOr<PublishedRun> MosaicRun(const PublishedRow& row) {
  const auto mpt =
      std::find_if(std::begin(kMpts), std::end(kMpts), [&](const Mpt& m) { return row.model == m.name; });
  if (mpt == std::end(kMpts)) return Excluded("the shape of the layers is not known");
  if (absl::StrContains(row.note, "fp8")) return Excluded("products of 8 bits");
  PublishedRow whole = row;
  whole.layers = mpt->layers;
  whole.hidden = mpt->hidden;
  whole.heads = mpt->heads;
  whole.vocabulary = 50368;
  PublishedRun published = MegatronRun(whole);
  published.kind = absl::StrContains(row.device, "h100")        ? "H100-80"
                   : absl::StrContains(row.device, "a100_80gb") ? "A100-80"
                                                                : "A100-40";
  published.software = "composer fsdp";
  TrainingRun& run = published.run;
  run.fused_attention = run.shards_optimizer = true;
  run.parameter_gathers = absl::StrContains(row.note, "SHARD_GRAD_OP") ? 1 : 2;
  if (published.kind == "H100-80") run.network_bytes_per_second = 50e9;  // not stated; as is usual
  return published;
}

absl::StatusOr<PublishedRun> TorchtitanRun(const PublishedRow&) {
  return Excluded(
      "8-bit products, context parallelism and recomputation op by op, on a slower H100 of its own");
}

absl::StatusOr<PublishedRun> MegatronBridgeRun(const PublishedRow&) {
  return Excluded("8- and 4-bit products, experts and kinds of which no layer was published");
}

absl::StatusOr<PublishedRun> TpuRun(const PublishedRow&) { return Excluded("no batch and no layout"); }

// Of studies with a reader of their own.
absl::StatusOr<PublishedRun> UnreadRun(const PublishedRow&) { return Excluded("a source that is not read"); }

struct Reader {
  const char* mark;  // in the source's name
  const char* study;
  absl::StatusOr<PublishedRun> (*read)(const PublishedRow&);
};
constexpr Reader kReaders[] = {
    {"VIA-Research/vTrain", "vtrain", VtrainRun},
    {"Korthikanti 2022", "korthikanti", KorthikantiRun},
    {"cases_april2021", "megatron", Megatron2021Run},
    {"2104.04473 Table 2", "megatron", Megatron2021Run},
    {"images/model_table.png", "megatron", MegatronH100Run},
    {"eth-easl/sailor", "sailor", SailorRun},
    {"2507.10392", "zorse", UnreadRun},
    {"InternLM/InternEvo", "internevo", InternEvoRun},
    {"karpathy/llm.c", "llm_c", LlmCRun},
    {"mosaicml/llm-foundry", "mosaicml", MosaicRun},
    {"pytorch/torchtitan", "torchtitan", TorchtitanRun},
    {"NVIDIA-NeMo/Megatron-Bridge", "megatron_bridge", MegatronBridgeRun},
    {"AI-Hypercomputer/maxtext", "maxtext", TpuRun},
    {"NVIDIA/NeMo-Framework-Launcher", "nemo", MegatronBridgeRun},
    {"images/tables.tex", "megatron_2019", Megatron2021Run},
    {"examples/llama/README.md", "megatron_llama", MegatronBridgeRun},
};

const Reader* ReaderOf(const PublishedRow& row) {
  for (const Reader& reader : kReaders) {
    if (absl::StrContains(row.source, reader.mark)) return &reader;
  }
  return nullptr;
}

}  // namespace

std::string StudyOf(const PublishedRow& row) {
  const Reader* reader = ReaderOf(row);
  return reader != nullptr ? reader->study : "other";
}

absl::StatusOr<PublishedRun> RunOf(const PublishedRow& row) {
  const Reader* reader = ReaderOf(row);
  if (reader == nullptr) return Excluded("a source that is not read");
  if ((row.layers == 0 || row.hidden == 0) && reader->read != MosaicRun)
    return Excluded("the shape of the layers is not said");
  if (row.sequence == 0) return Excluded("the length of the sequences is not said");
  if (row.global_batch == 0) return Excluded("the batch is not said");
  ASSIGN_OR_RETURN(PublishedRun published, reader->read(row));
  if (published.step_seconds <= 0 && published.memory_gibibytes <= 0) {
    return Excluded("neither a time nor a memory is said");
  }
  if (published.run.Chunks() > published.run.shape.model.layers) return Excluded("more stages than layers");
  if (published.run.MicroBatches() < 1) return Excluded("less than a micro-batch for each replica");
  return published;
}

void LeaveOutContradictedMemory(std::vector<PublishedRun>& runs, std::map<std::string, int>& excluded) {
  std::map<std::string, std::vector<PublishedRun*>> alike;
  for (PublishedRun& published : runs) {
    const TrainingRun& run = published.run;
    if (published.memory_gibibytes <= 0 || run.MicroBatches() < run.stages) continue;
    alike[absl::StrCat(published.study, " ", run.shape.model.hidden, " ", run.shape.model.layers, " ",
                       run.shape.sequence, " ", run.micro_batch_sequences, " ", run.ranks, " ", run.stages,
                       " ", run.chunks_per_stage, " ", run.shards_optimizer)]
        .push_back(&published);
  }
  for (auto& [layout, of_layout] : alike) {
    std::sort(of_layout.begin(), of_layout.end(), [](const PublishedRun* a, const PublishedRun* b) {
      return a->memory_gibibytes < b->memory_gibibytes;
    });
    const double median = of_layout[of_layout.size() / 2]->memory_gibibytes;
    const auto is_off = [&](const PublishedRun* run, double by) {
      return std::abs(run->memory_gibibytes / median - 1) > by;
    };
    if (std::count_if(of_layout.begin(), of_layout.end(),
                      [&](const auto* run) { return !is_off(run, 0.02); }) < 3)
      continue;
    for (PublishedRun* run : of_layout) {
      if (!is_off(run, 0.1)) continue;
      run->memory_gibibytes = 0;
      ++excluded["memories of " + run->study + ": contradicted by three runs whose ranks hold the same"];
    }
  }
}

}  // namespace medley
