#include "agent/worker/align_commands.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/worker/align_work.h"

namespace medley {

void AddAlignCommands(CLI::App& app, std::function<absl::Status()>& action) {
  const auto work = std::make_shared<AlignWork>();
  const std::map<std::string, Party> parties = {{NameOf(Party::kA), Party::kA},
                                                {NameOf(Party::kB), Party::kB},
                                                {NameOf(Party::kOracle), Party::kOracle}};
  const std::map<std::string, Precision> precisions = {
      {"f32", Precision::kF32}, {"bf16", Precision::kBf16}, {"f16", Precision::kF16}};
  CLI::App* align = app.add_subcommand("align", "one device's part of medley align");
  align->add_option("--party", work->party, "a, b or oracle")
      ->required()
      ->transform(CLI::Transformer(parties));
  align->add_option("--device", work->device, "BACKEND[:VARIANT][/CORES]")->required();
  align->add_option("--directory", work->directory, "where the parties' files lie")->required();
  align->add_option("--model", work->job.model, "directory of Hugging Face, or job spec (YAML)")->required();
  align->add_option("--data", work->job.data, "tokens to train on");
  align->add_option("--steps", work->job.steps, "to train");
  align
      ->add_option_function<Precision>(
          "--precision", [work](const Precision& precision) { work->job.precision = precision; },
          "f32, bf16 or f16")
      ->transform(CLI::Transformer(precisions));
  align->add_option("--micro-batch", work->job.micro_batch, "windows");
  align->add_option("--sequence", work->job.sequence, "tokens in a window");
  align->add_option("--calls-per-shape", work->limits.calls_of_a_shape,
                    "captured in a step, of one op and shape");
  align->add_option("--step-bytes", work->limits.one_step.value, "captured in a step");
  align->callback([work, &action] { action = [work] { return DoAlignWork(*work); }; });

  const auto devices = std::make_shared<std::vector<std::string>>();
  CLI::App* check = app.add_subcommand("align-check", "whether devices can be opened here");
  check->add_option("DEVICE", *devices, "BACKEND[:VARIANT][/CORES]")->required();
  check->callback([devices, &action] { action = [devices] { return CheckNamedDevices(*devices); }; });
}

}  // namespace medley
