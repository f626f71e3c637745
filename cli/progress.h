#pragma once
#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "proto/medley/v1/coordinator.pb.h"
#include "proto/medley/v1/job.pb.h"

namespace medley {

// "running"; of a state that this program does not know, its number.
std::string StateName(v1::JobState state);

// Done, failed or cancelled: it will not change any more.
bool HasEnded(v1::JobState state);

// Waits for `medley release`. A job that was cancelled while it was held keeps that for when it is resumed.
bool IsHeld(const v1::Job& job);

// "68.3k": tokens a second, of the measured step or else of the newest one. Empty: no step was made yet.
std::string TokenRate(const v1::Job& job);
// "17 s": what the steps after `step` take, as fast as those before. Empty: there are none, or nothing is known.
std::string TimeLeft(const v1::Job& job, uint32_t step);

// What has been seen of a job that is watched. One thread.
class JobProgress {
 public:
  void Add(const v1::JobUpdate& update);

  const v1::Job& job() const { return job_; }
  // The metrics of the newest steps that are part of the training, oldest first, at most 512: a newer
  // attempt's steps take the place of those that an older one made from there on.
  const std::deque<v1::StepMetrics>& steps() const { return steps_; }
  // The training has come so far.
  uint32_t newest_step() const { return steps_.empty() ? job_.last_step().step() : steps_.back().step(); }
  // What to watch after when the watching is taken up again: newer attempts may have begun anew after the
  // newest checkpoint that was heard of, but not before it.
  uint32_t watch_after() const { return std::min(newest_step(), job_.checkpoint_step()); }
  // Whether `step` was not seen yet.
  bool IsNews(const v1::StepMetrics& step) const;

 private:
  v1::Job job_;
  std::deque<v1::StepMetrics> steps_;
};

// The display on a terminal of `columns` columns: state, bar, loss with its curve over the newer half of the
// steps (of all, the start would make the rest flat), speed against prediction, time left, and one line for
// each device of the plan. No line is wider than the terminal.
std::vector<std::string> LiveLines(const JobProgress& progress, int columns);

// For pipes and files: a line for each change of state and for each step, but for steps at most one line a
// second; the last step before the job ends has its line in any case.
class PlainProgress {
 public:
  // `now_seconds`: of any clock that does not go back.
  std::vector<std::string> Lines(const v1::JobUpdate& update, double now_seconds);

 private:
  v1::JobState state_ = v1::JOB_STATE_UNSPECIFIED;
  std::string reason_, checkpoint_problem_;
  v1::StepMetrics held_back_;  // step 0: none
  double last_line_seconds_ = -1e300;
};

// `values` as a row of at most `width` blocks of eight heights, the mean of neighbours where there are more.
// Values that are not finite are left out.
std::string Sparkline(const std::vector<double>& values, int width);

// Removes the rows that a newer attempt has begun to make anew: those of an older attempt that stand after
// one of its.
void DropDiscarded(v1::ListStepsResponse& steps);

}  // namespace medley
