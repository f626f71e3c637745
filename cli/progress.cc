#include "cli/progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/number_format.h"
#include "cli/text_table.h"
#include "runtime/base/counted.h"
#include "runtime/wire/enum_names.h"
#include "runtime/wire/plan_codec.h"

namespace medley {
namespace {

constexpr size_t kHistory = 512;
constexpr int kBarWidth = 32;
constexpr int kSparklineWidth = 40;
constexpr double kSecondsBetweenPlainLines = 1;

std::string Bar(double share) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBarWidth);
  std::string bar;
  for (int i = 0; i < kBarWidth; ++i) absl::StrAppend(&bar, i < filled ? "█" : "░");
  return bar;
}

std::string HeadLine(const v1::Job& job) {
  std::string line = absl::StrCat(Printable(job.id()), "  ", StateName(job.state()));
  if (IsHeld(job)) absl::StrAppend(&line, "  held");
  if (job.attempt() > 1) absl::StrAppend(&line, "  attempt ", job.attempt());
  if (job.parameters() > 0) absl::StrAppend(&line, "  ", FormatParameters(job.parameters()), " parameters");
  if (job.restarts() > 0) absl::StrAppend(&line, "  ", Counted(job.restarts(), "restart"));
  if (job.plan().emulated()) absl::StrAppend(&line, "  EMULATED");
  if (!job.state_reason().empty()) absl::StrAppend(&line, "  ", Printable(job.state_reason()));
  return line;
}

double StepSeconds(const v1::Job& job) {
  if (job.measured_step_seconds() > 0) return job.measured_step_seconds();
  return job.last_step().step_seconds();
}

std::string StepLine(const v1::Job& job, uint32_t step) {
  const uint32_t steps = job.spec().steps();
  const double share = steps > 0 ? static_cast<double>(step) / steps : 0;
  std::string line = absl::StrFormat("%s  step %d/%d  %.1f %%", Bar(share), step, steps, share * 100);
  if (const std::string left = TimeLeft(job, step); !left.empty())
    absl::StrAppend(&line, "  ", left, " left");
  return line;
}

// What a step that was skipped was scaled by: the next one is by half of it.
std::string ScaleText(const v1::StepMetrics& step) {
  return step.loss_scale() == 0 ? "" : absl::StrCat(" with loss scale ", step.loss_scale());
}

std::string LossLine(const JobProgress& progress) {
  if (progress.steps().back().emulated()) return "no loss: emulated devices compute nothing";
  std::vector<double> losses;
  const size_t shown = (progress.steps().size() + 1) / 2;
  for (size_t i = progress.steps().size() - shown; i < progress.steps().size(); ++i) {
    losses.push_back(progress.steps()[i].loss());
  }
  const v1::Job& job = progress.job();
  std::string line =
      absl::StrFormat("loss %.4f  %s", progress.steps().back().loss(), Sparkline(losses, kSparklineWidth));
  if (shown > 1) absl::StrAppend(&line, "  newest ", shown, " steps");
  if (progress.steps().back().skipped())
    absl::StrAppend(&line, "  SKIPPED: not finite", ScaleText(progress.steps().back()));
  if (job.last_validation().step() > 0) {
    absl::StrAppend(&line, absl::StrFormat("  validation %.4f at step %d", job.last_validation().loss(),
                                           job.last_validation().step()));
  }
  return line;
}

std::string SpeedLine(const v1::Job& job) {
  const double measured = StepSeconds(job), predicted = job.plan().predicted_step_seconds();
  std::string line;
  if (measured > 0) {
    line = absl::StrCat(TokenRate(job), " tokens/s  step ", FormatStepSeconds(measured), " measured");
  }
  if (predicted > 0) {
    absl::StrAppend(&line, line.empty() ? "step " : ", ", FormatStepSeconds(predicted), " predicted");
  }
  const std::string difference = FormatDifference(measured, predicted);
  if (!difference.empty()) absl::StrAppend(&line, " (", difference, ")");
  return line;
}

void AppendUnitLines(const v1::Plan& plan, std::vector<std::string>& lines) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Route& route : plan.routes()) {
    uint32_t first = 0;  // block of the range that the route passes next
    for (const uint32_t index : route.units()) {
      if (index >= static_cast<uint32_t>(plan.units_size())) continue;
      const v1::Unit& unit = plan.units(static_cast<int>(index));
      const auto passed = std::find_if(unit.blocks().begin(), unit.blocks().end(),
                                       [&](const v1::BlockRange& range) { return range.first() == first; });
      if (unit.devices_size() == 0 || passed == unit.blocks().end()) continue;
      first = passed->end();
      rows.push_back(
          {absl::StrCat("  ", Printable(absl::StrJoin(unit.devices(), "+"))),
           absl::StrCat("blocks ", passed->first(), "-", passed->end() - 1),
           absl::StrCat(route.micro_batches(), " x ", MicroBatchSequencesOf(plan, route), " windows")});
    }
  }
  std::string table = FormatTable(rows);
  for (size_t begin = 0, end; (end = table.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(table.substr(begin, end - begin));
  }
}

std::string StepText(const v1::Job& job, const v1::StepMetrics& step) {
  const std::string loss = step.emulated()  ? "EMULATED, no loss"
                           : step.skipped() ? absl::StrCat("SKIPPED, not finite", ScaleText(step))
                                            : absl::StrFormat("loss %.4f", step.loss());
  std::string line = absl::StrFormat("step %d/%d  %s", step.step(), job.spec().steps(), loss);
  if (step.step_seconds() > 0) {
    absl::StrAppend(&line, "  ", FormatRate(step.tokens() / step.step_seconds()), " tokens/s  ",
                    FormatStepSeconds(step.step_seconds()));
    const double predicted = job.plan().predicted_step_seconds();
    if (predicted > 0) {
      absl::StrAppend(&line, " (predicted ", FormatStepSeconds(predicted), ", ",
                      FormatDifference(step.step_seconds(), predicted), ")");
    }
  }
  return line;
}

}  // namespace

std::string StateName(v1::JobState state) {
  const auto* value = v1::JobState_descriptor()->FindValueByNumber(state);
  return value == nullptr ? absl::StrCat("state ", static_cast<int>(state)) : NameOf(*value);
}

bool HasEnded(v1::JobState state) {
  return state == v1::JOB_STATE_DONE || state == v1::JOB_STATE_FAILED || state == v1::JOB_STATE_CANCELLED;
}

std::string TokenRate(const v1::Job& job) {
  return StepSeconds(job) > 0 ? FormatRate(job.last_step().tokens() / StepSeconds(job)) : "";
}

std::string TimeLeft(const v1::Job& job, uint32_t step) {
  const uint32_t steps = job.spec().steps();
  if (HasEnded(job.state()) || steps <= step || !(StepSeconds(job) > 0)) return "";
  return FormatDuration((steps - step) * StepSeconds(job));
}

bool IsHeld(const v1::Job& job) { return job.held() && !HasEnded(job.state()); }

bool JobProgress::IsNews(const v1::StepMetrics& step) const {
  if (steps_.empty()) return true;
  const v1::StepMetrics& newest = steps_.back();
  return step.attempt() > newest.attempt() ||
         (step.attempt() == newest.attempt() && step.step() > newest.step());
}

void JobProgress::Add(const v1::JobUpdate& update) {
  if (update.has_job()) job_ = update.job();
  for (const v1::StepMetrics& step : update.steps()) {
    while (!steps_.empty() && steps_.back().step() >= step.step()) steps_.pop_back();
    steps_.push_back(step);
    if (steps_.size() > kHistory) steps_.pop_front();
  }
  // A newer attempt went on from an earlier step: what lies beyond where it is was discarded.
  const v1::StepMetrics& last = job_.last_step();
  while (!steps_.empty() && steps_.back().attempt() < last.attempt() && steps_.back().step() > last.step()) {
    steps_.pop_back();
  }
  for (const v1::ValidationMetrics& validation : update.validations()) {
    if (validation.step() >= job_.last_validation().step()) *job_.mutable_last_validation() = validation;
  }
}

void DropDiscarded(v1::ListStepsResponse& steps) {
  uint32_t attempt = 0;
  auto& rows = *steps.mutable_steps();
  const auto kept = std::remove_if(rows.begin(), rows.end(), [&](const v1::StepMetrics& step) {
    attempt = std::max(attempt, step.attempt());
    return step.attempt() < attempt;
  });
  rows.erase(kept, rows.end());
}

std::vector<std::string> LiveLines(const JobProgress& progress, int columns) {
  const v1::Job& job = progress.job();
  std::vector<std::string> lines = {HeadLine(job), StepLine(job, progress.newest_step())};
  if (!progress.steps().empty()) lines.push_back(LossLine(progress));
  const std::string speed = SpeedLine(job);
  if (!speed.empty()) lines.push_back(speed);
  if (!job.checkpoint_problem().empty()) {
    lines.push_back(absl::StrCat("NO CHECKPOINT: ", Printable(job.checkpoint_problem())));
  }
  AppendUnitLines(job.plan().plan(), lines);
  for (std::string& line : lines) line = CutToWidth(line, static_cast<size_t>(std::max(columns, 1)));
  return lines;
}

std::vector<std::string> PlainProgress::Lines(const v1::JobUpdate& update, double now_seconds) {
  const v1::Job& job = update.job();
  std::vector<std::string> lines;
  const bool changed = job.state() != state_ || job.state_reason() != reason_;
  // Steps that came before the news of a state that ends the job stand before it.
  for (const v1::StepMetrics& step : update.steps()) {
    if (now_seconds - last_line_seconds_ >= kSecondsBetweenPlainLines) {
      lines.push_back(StepText(job, step));
      last_line_seconds_ = now_seconds;
      held_back_.Clear();
    } else {
      held_back_ = step;
    }
  }
  if (HasEnded(job.state()) && held_back_.step() > 0) lines.push_back(StepText(job, held_back_));
  for (const v1::ValidationMetrics& validation : update.validations()) {
    if (job.plan().emulated()) continue;
    lines.push_back(
        absl::StrFormat("validation after step %d  loss %.4f", validation.step(), validation.loss()));
  }
  if (job.checkpoint_problem() != checkpoint_problem_) {
    checkpoint_problem_ = job.checkpoint_problem();
    lines.push_back(checkpoint_problem_.empty()
                        ? "checkpoints are written again"
                        : absl::StrCat("no checkpoint: ", Printable(checkpoint_problem_)));
  }
  if (changed) {
    const std::string reason =
        job.state_reason().empty() ? "" : absl::StrCat(": ", Printable(job.state_reason()));
    const std::string line = absl::StrCat(Printable(job.id()), " ", StateName(job.state()), reason);
    lines.insert(HasEnded(job.state()) ? lines.end() : lines.begin(), line);
    state_ = job.state();
    reason_ = job.state_reason();
  }
  return lines;
}

std::string Sparkline(const std::vector<double>& values, int width) {
  static const char* const kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](double v) { return std::isfinite(v); });
  const size_t count = std::min(finite.size(), static_cast<size_t>(std::max(width, 0)));
  std::vector<double> means;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * finite.size() / count, end = (i + 1) * finite.size() / count;
    double sum = 0;
    for (size_t k = begin; k < end; ++k) sum += finite[k];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  if (means.empty()) return "";
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string line;
  for (const double mean : means) {
    const double height = *high > *low ? (mean - *low) / (*high - *low) : 0;
    line += kBlocks[std::clamp(static_cast<int>(height * 8), 0, 7)];
  }
  return line;
}

}  // namespace medley
