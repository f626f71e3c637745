#include "coordinator/orchestrator/job_journal.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/orchestrator/job_time.h"
#include "coordinator/wire/job_life_codec.h"
#include "runtime/base/clock.h"
#include "runtime/base/status_macros.h"
#include "runtime/base/unix_time.h"
#include "runtime/base/valid_utf8.h"
#include "runtime/log/log.h"

namespace medley {
namespace {

constexpr size_t kWarmUpSteps = 2;       // not counted in measured_step_seconds
constexpr size_t kNewestSteps = 16;      // that the pace is of
constexpr size_t kMostStepTimes = 4096;  // of the attempt's first steps; the median of so many does not move

// Not Median of quantile.h, which of an even number is the mean of the two in the middle and sorts: this is the greater of these, and takes
// time in proportion, being asked for at each step.
double UpperMedian(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The job without what only a view of it alone shows and what can be large; ListJobsResponse says what that is.
v1::Job Listed(v1::Job job) {
  job.clear_tasks();
  job.mutable_spec()->clear_plan();
  if (!job.has_plan()) return job;
  v1::PlanReport listed;
  for (v1::Unit& unit : *job.mutable_plan()->mutable_plan()->mutable_units())
    listed.mutable_plan()->add_units()->mutable_devices()->Swap(unit.mutable_devices());
  listed.set_predicted_step_seconds(job.plan().predicted_step_seconds());
  listed.set_predicted_tokens_per_second(job.plan().predicted_tokens_per_second());
  listed.set_pinned(job.plan().pinned());
  listed.set_emulated(job.plan().emulated());
  *job.mutable_plan() = std::move(listed);
  return job;
}

}  // namespace

absl::StatusOr<JobJournal::Entry*> JobJournal::Find(const std::string& job_id) {
  const auto known = entries_.find(job_id);
  if (known != entries_.end() && !known->second.deleted) {
    known->second.used = clock_.Now();
    return &known->second;
  }
  ASSIGN_OR_RETURN(v1::Job job, store_.GetJob(job_id));
  Entry& entry = entries_[job_id];
  entry.job = std::move(job);
  entry.used = clock_.Now();
  return &entry;
}

v1::Job JobJournal::View(const Entry& entry) {
  v1::Job job = entry.job;
  if (!entry.wait.empty()) {
    job.set_state_reason(
        absl::StrCat(job.state_reason(), job.state_reason().empty() ? "" : "; ", entry.wait));
  }
  return job;
}

void JobJournal::Changed(Entry& entry) {
  ++entry.version;
  changed_.NotifyAll();
}

absl::Status JobJournal::Look(const std::string& job_id, const std::function<void(const v1::Job&)>& look) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Entry* entry, Find(job_id));
  look(entry->job);
  return absl::OkStatus();
}

size_t JobJournal::MeasuredSteps(const std::string& job_id) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  return entry.ok() ? std::max((*entry)->step_seconds.size(), kWarmUpSteps) - kWarmUpSteps : 0;
}

absl::StatusOr<v1::Job> JobJournal::Get(const std::string& job_id) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Entry* entry, Find(job_id));
  return View(*entry);
}

absl::StatusOr<v1::Job> JobJournal::Read(const std::string& job_id) {
  {
    MutexLock lock(mutex_);
    const auto known = entries_.find(job_id);
    if (known != entries_.end() && !known->second.deleted) return View(known->second);
  }
  return store_.GetJob(job_id);
}

absl::Status JobJournal::List(int limit, absl::FunctionRef<bool(const v1::Job&)> take) {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, store_.ListJobIds(limit));
  for (const std::string& id : ids) {
    absl::StatusOr<v1::Job> job = Read(id);
    if (absl::IsNotFound(job.status())) continue;
    RETURN_IF_ERROR(job.status());
    if (!take(Listed(*std::move(job)))) break;
  }
  return absl::OkStatus();
}

std::vector<JobJournal::Standing> JobJournal::Unfinished() {
  MutexLock lock(mutex_);
  std::vector<Standing> standing;
  for (const auto& [id, entry] : entries_) {
    const v1::Job& job = entry.job;
    const absl::StatusOr<JobLife> life = LifeOf(job);
    if (!life.ok() || IsEnded(life->state)) continue;
    standing.push_back(
        {id, job.state(),
         job.state_since_seconds() > 0 ? job.state_since_seconds() : job.submitted_at_seconds()});
  }
  return standing;
}

void JobJournal::Add(const v1::Job& job) {
  MutexLock lock(mutex_);
  const auto [entry, is_new] = entries_.try_emplace(job.id());
  if (!is_new) return;
  entry->second.job = job;
  entry->second.used = clock_.Now();
  changed_.NotifyAll();
}

absl::Status JobJournal::Delete(const std::string& job_id) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, Find(job_id));
  ASSIGN_OR_RETURN(const JobLife life, LifeOf(entry->job));
  if (!IsEnded(life.state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job_id, " is ", NameOf(life.state), "; only one that has ended can be deleted"));
  }
  RETURN_IF_ERROR(store_.DeleteJob(job_id));
  entry->deleted = true;
  if (entry->watchers == 0) {
    entries_.erase(job_id);
  } else {
    changed_.NotifyAll();  // the last of them erases it
  }
  return absl::OkStatus();
}

absl::Status JobJournal::CheckKept(const std::string& job_id) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Entry* entry, Find(job_id));
  if (entry->unwritten.ok()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "what was asked of job ", job_id,
      " is under way, but would be forgotten if the coordinator ended now: ", entry->unwritten.message(),
      "; it is tried again"));
}

void JobJournal::SetWait(const std::string& job_id, const std::string& what) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok() || (*entry)->wait == what) return;
  (*entry)->wait = what;
  Changed(**entry);
}

JobJournal::Pace JobJournal::PaceOf(const std::string& job_id) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok() || (*entry)->first_step == 0) return {};
  const Entry& e = **entry;
  return {.steps = int64_t{e.job.last_step().step()} - e.first_step + 1,
          .step_seconds = e.newest_step_seconds.empty()
                              ? 0
                              : UpperMedian({e.newest_step_seconds.begin(), e.newest_step_seconds.end()})};
}

absl::StatusOr<v1::Job> JobJournal::Change(const std::string& job_id,
                                           const std::function<void(v1::Job&)>& change) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, Find(job_id));
  const uint32_t attempt = entry->job.attempt();
  change(entry->job);
  if (entry->job.attempt() != attempt) {
    entry->step_seconds.clear();
    entry->newest_step_seconds.clear();
    entry->first_step = 0;
  }
  Write(job_id, *entry);
  Changed(*entry);
  return View(*entry);
}

absl::StatusOr<v1::Job> JobJournal::Apply(const std::string& job_id, JobEvent event, const std::string& cause,
                                          const std::function<void(v1::Job&)>& change) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, Find(job_id));
  v1::Job& job = entry->job;
  ASSIGN_OR_RETURN(const JobLife before, LifeOf(job));
  ASSIGN_OR_RETURN(const JobLife after, Next(before, event, ValidUtf8(cause)));
  if (after == before) return View(*entry);
  if (after.state != before.state) EndState(job);
  SetLife(after, job);
  if (after.state != before.state) BeginState(job);
  if (change) change(job);
  if (!WaitsForDevices(after.state)) entry->wait.clear();
  if (IsEnded(after.state) && job.ended_at_seconds() == 0) job.set_ended_at_seconds(UnixSecondsNow());
  if (!IsEnded(after.state)) job.clear_ended_at_seconds();
  if (after.state != JobState::kRunning) job.clear_tasks();
  if (IsEnded(after.state) || WaitsForDevices(after.state)) job.clear_asked_to_end();
  if (after.state == JobState::kRunning && job.started_at_seconds() == 0)
    job.set_started_at_seconds(UnixSecondsNow());
  const std::string text = absl::StrCat(NameOf(after.state), after.reason.empty() ? "" : ": ", after.reason);
  LogInfo(text, {.job = job_id, .attempt = job.attempt()});
  AppendLog(*entry, "coordinator", text);
  Write(job_id, *entry);  // who sees a job's end finds everything that it reported
  Changed(*entry);
  return View(*entry);
}

void JobJournal::AddStep(const std::string& job_id, const v1::StepMetrics& step) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok()) return;
  Entry& e = **entry;
  // A step that comes again, after a coordinator's absence, is the same one.
  if (e.first_step != 0 && step.step() <= e.job.last_step().step()) return;
  if (e.first_step == 0) {
    const bool goes_on = e.job.last_step().attempt() == step.attempt();
    if (goes_on && step.step() <= e.job.last_step().step()) return;
    e.first_step = step.step();
    if (!goes_on) {
      if (const absl::Status dropped = store_.DropStepsAfter(job_id, step.step() - 1); !dropped.ok()) {
        LogError(dropped.message(), {.job = job_id, .attempt = e.job.attempt()});
      }
      // Of what is not on disk yet, too, nothing before it.
      std::erase_if(e.steps, [&](const v1::StepMetrics& s) { return s.step() >= step.step(); });
      std::erase_if(e.validations, [&](const v1::ValidationMetrics& v) { return v.step() >= step.step(); });
      if (e.job.last_validation().step() >= step.step()) e.job.clear_last_validation();
    }
  }
  e.steps.push_back(step);
  const double seconds = TakeTime(e.job, step.step_seconds(), step.at_seconds());
  e.job.set_step_seconds_total(e.job.step_seconds_total() + seconds);
  const uint32_t highest = std::max(e.job.highest_step(), e.job.last_step().step());
  if (step.step() <= highest) {
    e.job.set_repeated_step_seconds(e.job.repeated_step_seconds() + seconds);
  } else {
    e.job.set_tokens_total(e.job.tokens_total() + step.tokens());
  }
  e.job.set_highest_step(std::max(highest, step.step()));
  *e.job.mutable_last_step() = step;
  if (e.step_seconds.size() < kMostStepTimes) e.step_seconds.push_back(step.step_seconds());
  if (e.step_seconds.size() > kWarmUpSteps) {
    e.newest_step_seconds.push_back(step.step_seconds());
    if (e.newest_step_seconds.size() > kNewestSteps) e.newest_step_seconds.pop_front();
    e.job.set_measured_step_seconds(
        UpperMedian({e.step_seconds.begin() + kWarmUpSteps, e.step_seconds.end()}));
  }
  e.dirty = true;
}

void JobJournal::AddMissedSteps(const std::string& job_id, const std::vector<v1::StepMetrics>& steps) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok()) return;
  v1::Job& job = (*entry)->job;
  for (const v1::StepMetrics& step : steps) {
    if (step.step() <= job.last_step().step()) continue;
    (*entry)->steps.push_back(step);
    *job.mutable_last_step() = step;
    if (step.step() <= job.highest_step()) continue;
    job.set_highest_step(step.step());
    job.set_tokens_total(job.tokens_total() + step.tokens());
  }
  (*entry)->dirty = true;
}

void JobJournal::AddValidation(const std::string& job_id, const v1::ValidationMetrics& validation) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok()) return;
  (*entry)->validations.push_back(validation);
  v1::Job& job = (*entry)->job;
  job.set_validation_seconds_total(job.validation_seconds_total() +
                                   TakeTime(job, validation.seconds(), validation.at_seconds()));
  *job.mutable_last_validation() = validation;
  (*entry)->dirty = true;
}

void JobJournal::Seen(const std::string& job_id, int task, uint64_t number) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok() || task >= (*entry)->job.tasks_size()) return;
  (*entry)->job.mutable_tasks(task)->set_seen_event(number);
  (*entry)->dirty = true;
}

void JobJournal::AppendLog(Entry& entry, const std::string& source, const std::string& text) {
  v1::LogLine& line = entry.logs.emplace_back();
  line.set_at_seconds(UnixSecondsNow());
  line.set_source(source);
  line.set_text(ValidUtf8(text));
  entry.dirty = true;
}

void JobJournal::Log(const std::string& job_id, const std::string& source, const std::string& text) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (entry.ok()) AppendLog(**entry, source, text);
}

absl::Status JobJournal::TryWrite(const std::string& job_id, const Entry& entry) {
  if (!entry.steps.empty()) RETURN_IF_ERROR(store_.AppendSteps(job_id, entry.steps));
  if (!entry.validations.empty()) RETURN_IF_ERROR(store_.AppendValidations(job_id, entry.validations));
  if (!entry.logs.empty()) RETURN_IF_ERROR(store_.AppendLogs(job_id, entry.logs));
  return store_.UpdateJob(entry.job);
}

void JobJournal::Write(const std::string& job_id, Entry& entry) {
  const absl::Status written = TryWrite(job_id, entry);
  // Of a job that was deleted while somebody watched it nothing is kept.
  const bool is_gone = absl::IsNotFound(written);
  entry.dirty = !written.ok() && !is_gone;
  entry.unwritten = entry.dirty ? written : absl::OkStatus();
  if (entry.dirty) {
    LogError(absl::StrCat(written.message(), "; trying again"),
             {.job = job_id, .attempt = entry.job.attempt()});
    return;
  }
  entry.steps.clear();
  entry.validations.clear();
  entry.logs.clear();
}

void JobJournal::Flush() {
  MutexLock lock(mutex_);
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto entry = next++;
    Entry& e = entry->second;
    if (e.dirty && !e.deleted) {
      Write(entry->first, e);
      if (!e.dirty) Changed(e);
    }
    const absl::StatusOr<JobLife> life = LifeOf(e.job);
    const bool over = life.ok() && IsEnded(life->state) && !e.dirty && e.watchers == 0 &&
                      clock_.Now() - e.used > kKeepEnded;
    if (over) entries_.erase(entry);
  }
}

int JobJournal::Kept() {
  MutexLock lock(mutex_);
  return static_cast<int>(entries_.size());
}

JobJournal::Glance JobJournal::AwaitChange(const std::string& job_id, uint64_t seen, absl::Time deadline) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> found = Find(job_id);
  if (!found.ok()) return {};
  Entry& entry = **found;
  ++entry.watchers;
  changed_.WaitUntil(mutex_, deadline, [&] { return entry.version > seen || entry.deleted; });
  --entry.watchers;
  if (entry.deleted) {
    if (entry.watchers == 0) entries_.erase(job_id);
    return {};
  }
  return {entry.version, entry.job.attempt(), entry.first_step};
}

}  // namespace medley
