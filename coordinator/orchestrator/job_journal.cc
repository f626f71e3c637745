#include "coordinator/orchestrator/job_journal.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/jobs/job_life_codec.h"
#include "runtime/base/status_macros.h"

namespace medley {
namespace {

constexpr size_t kWarmUpSteps = 2;      // not counted in measured_step_seconds
constexpr size_t kMostStepTimes = 4096;  // of the attempt's first steps; the median of so many does not move

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

double NowSeconds() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

absl::StatusOr<JobJournal::Entry*> JobJournal::Find(const std::string& job_id) {
  const auto known = entries_.find(job_id);
  if (known != entries_.end()) return &known->second;
  ASSIGN_OR_RETURN(v1::Job job, store_.GetJob(job_id));
  Entry& entry = entries_[job_id];
  entry.job = std::move(job);
  return &entry;
}

void JobJournal::Changed(Entry& entry) {
  ++entry.version;
  changed_.NotifyAll();
}

absl::StatusOr<v1::Job> JobJournal::Get(const std::string& job_id) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const Entry* entry, Find(job_id));
  return entry->job;
}

void JobJournal::Add(const v1::Job& job) {
  MutexLock lock(mutex_);
  entries_[job.id()].job = job;
  changed_.NotifyAll();
}

absl::StatusOr<v1::Job> JobJournal::Change(const std::string& job_id, const std::function<void(v1::Job&)>& change) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, Find(job_id));
  const uint32_t attempt = entry->job.attempt();
  change(entry->job);
  if (entry->job.attempt() != attempt) entry->step_seconds.clear();
  Write(job_id, *entry);
  Changed(*entry);
  return entry->job;
}

absl::StatusOr<v1::Job> JobJournal::Apply(const std::string& job_id, JobEvent event, const std::string& cause) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, Find(job_id));
  v1::Job& job = entry->job;
  ASSIGN_OR_RETURN(const JobLife before, LifeOf(job));
  ASSIGN_OR_RETURN(const JobLife after, Next(before, event, cause));
  if (after == before) return job;
  SetLife(after, job);
  if (IsEnded(after.state) && job.ended_at_seconds() == 0) job.set_ended_at_seconds(NowSeconds());
  if (after.state == JobState::kRunning && job.started_at_seconds() == 0) job.set_started_at_seconds(NowSeconds());
  const std::string text = absl::StrCat(NameOf(after.state), after.reason.empty() ? "" : ": ", after.reason);
  spdlog::info("job {}: {}", job_id, text);
  AppendLog(*entry, "coordinator", text);
  Write(job_id, *entry);  // who sees a job's end finds everything that it reported
  Changed(*entry);
  return job;
}

void JobJournal::AddStep(const std::string& job_id, const v1::StepMetrics& step) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok()) return;
  Entry& e = **entry;
  e.steps.push_back(step);
  *e.job.mutable_last_step() = step;
  if (e.step_seconds.size() < kMostStepTimes) e.step_seconds.push_back(step.step_seconds());
  if (e.step_seconds.size() > kWarmUpSteps) {
    e.job.set_measured_step_seconds(Median({e.step_seconds.begin() + kWarmUpSteps, e.step_seconds.end()}));
  }
  e.dirty = true;
}

void JobJournal::AddValidation(const std::string& job_id, const v1::ValidationMetrics& validation) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok()) return;
  (*entry)->validations.push_back(validation);
  *(*entry)->job.mutable_last_validation() = validation;
  (*entry)->dirty = true;
}

void JobJournal::AppendLog(Entry& entry, const std::string& source, const std::string& text) {
  v1::LogLine& line = entry.logs.emplace_back();
  line.set_at_seconds(NowSeconds());
  line.set_source(source);
  line.set_text(text);
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
  entry.dirty = !written.ok();
  if (!written.ok()) {
    spdlog::error("job {}: {}; trying again", job_id, std::string(written.message()));
    return;
  }
  entry.steps.clear();
  entry.validations.clear();
  entry.logs.clear();
}

void JobJournal::Flush() {
  MutexLock lock(mutex_);
  for (auto& [job_id, entry] : entries_) {
    if (!entry.dirty) continue;
    Write(job_id, entry);
    if (!entry.dirty) Changed(entry);
  }
}

uint64_t JobJournal::AwaitChange(const std::string& job_id, uint64_t seen, absl::Time deadline) {
  MutexLock lock(mutex_);
  const absl::StatusOr<Entry*> entry = Find(job_id);
  if (!entry.ok()) return seen;
  changed_.WaitUntil(mutex_, deadline, [&] { return (*entry)->version > seen; });
  return (*entry)->version;
}

}  // namespace medley
