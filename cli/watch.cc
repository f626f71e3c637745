#include "cli/watch.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "cli/number_format.h"
#include "cli/progress.h"
#include "cli/terminal.h"
#include "cli/text_table.h"
#include "cli/views.h"
#include "runtime/base/clock.h"
#include "runtime/base/unix_time.h"

namespace medley {
namespace {

constexpr absl::Duration kBetweenTries = absl::Milliseconds(500);

// `update`, the first of a watching that was taken up again, without what was seen before.
v1::JobUpdate NewsOf(const v1::JobUpdate& update, const JobProgress& progress) {
  v1::JobUpdate news = update;
  news.clear_steps();
  news.clear_validations();
  for (const v1::ValidationMetrics& validation : update.validations()) {
    if (validation.step() > progress.job().last_validation().step()) *news.add_validations() = validation;
  }
  for (const v1::StepMetrics& step : update.steps()) {
    if (progress.IsNews(step)) *news.add_steps() = step;
  }
  return news;
}

class Printer {
 public:
  explicit Printer(Output output) : output_(output), terminal_(TerminalColumns() > 0) {}

  void Show(const v1::JobUpdate& update) {
    progress_.Add(update);
    if (output_ == Output::kJson) {
      v1::JobUpdate line = update;
      if (told_spec_) line.mutable_job()->clear_spec();
      told_spec_ = true;
      std::fputs(JsonLine(line).c_str(), stdout);
    } else if (terminal_) {
      Draw("");
    } else {
      const double now = UnixSecondsNow();
      for (const std::string& line : plain_.Lines(update, now)) std::printf("%s\n", line.c_str());
    }
    std::fflush(stdout);
  }

  void SayAway(const std::string& why, absl::Duration away) {
    const std::string text =
        absl::StrCat("AWAY for ", FormatDuration(absl::ToDoubleSeconds(away)), ": ", why);
    if (output_ == Output::kText && terminal_) {
      Draw(text);
    } else {
      notice_.SayAway(why);
    }
  }

  void SayBack(absl::Duration away) {
    if (output_ == Output::kJson || !terminal_) notice_.SayBack(away);
  }

 private:
  void Draw(const std::string& notice) {
    const size_t columns = TerminalColumns();
    std::vector<std::string> lines = LiveLines(progress_, static_cast<int>(columns));
    if (!notice.empty()) lines.push_back(CutToWidth(Printable(notice), columns));
    display_.Draw(lines);
  }

  const Output output_;
  const bool terminal_;
  bool told_spec_ = false;
  AwayNotice notice_;
  JobProgress progress_;
  LiveDisplay display_;
  PlainProgress plain_;
};

}  // namespace

void AwayNotice::SayAway(const std::string& why) {
  if (!away_) std::fprintf(stderr, "medley: %s; asking again\n", why.c_str());
  away_ = true;
}

void AwayNotice::SayBack(absl::Duration away) {
  std::fprintf(stderr, "medley: the coordinator is back after %s\n",
               FormatDuration(absl::ToDoubleSeconds(away)).c_str());
  away_ = false;
}

absl::StatusOr<v1::Job> FollowJob(CoordinatorClient& client, const std::string& job_id, uint32_t after_step,
                                  const FollowCallbacks& callbacks, absl::Duration patience) {
  CallHandle handle;
  Interrupter interrupter([&handle] { handle.Cancel(); });
  JobProgress progress;
  bool heard = false;                              // of the job, ever: the first failure is final
  absl::Time away_since = absl::InfiniteFuture();  // if it is away
  while (true) {
    const uint32_t after = std::max(after_step, heard ? progress.watch_after() : 0);
    bool again = heard;
    const absl::Status status = client.Watch(job_id, after, handle, [&](const v1::JobUpdate& update) {
      if (away_since != absl::InfiniteFuture() && callbacks.on_back) callbacks.on_back(Now() - away_since);
      away_since = absl::InfiniteFuture();
      heard = true;
      const v1::JobUpdate news = again ? NewsOf(update, progress) : update;
      again = false;
      progress.Add(news);
      callbacks.on_update(news);
    });
    if (interrupter.interrupted()) return absl::CancelledError("interrupted");
    if (HasEnded(progress.job().state())) return progress.job();
    if (!status.ok()) {
      // A stream has a deadline, too, at which it is simply taken up again.
      if (!heard || (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status))) return status;
    }
    if (absl::IsUnavailable(status)) {
      away_since = std::min(away_since, Now());
      const absl::Duration away = Now() - away_since;
      if (away > patience) return status;
      if (callbacks.on_away) callbacks.on_away(std::string(status.message()), away);
    }
    if (!interrupter.Sleep(kBetweenTries)) return absl::CancelledError("interrupted");
  }
}

absl::StatusOr<v1::Job> WatchJob(CoordinatorClient& client, const std::string& job_id, Output output) {
  Printer printer(output);
  absl::StatusOr<v1::Job> job =
      FollowJob(client, job_id, 0,
                {.on_update = [&](const v1::JobUpdate& update) { printer.Show(update); },
                 .on_away = [&](const std::string& why, absl::Duration away) { printer.SayAway(why, away); },
                 .on_back = [&](absl::Duration away) { printer.SayBack(away); }});
  if (!absl::IsCancelled(job.status())) return job;
  return absl::CancelledError(absl::StrCat("no longer watching; job ", job_id, " goes on (medley watch ",
                                           job_id, ", medley cancel ", job_id, ")"));
}

}  // namespace medley
