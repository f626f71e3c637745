#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "comm/session/frame.h"

namespace medley {

// The questions of this rank that have no answer yet, or whose answer nobody has fetched. Not thread-safe.
class OpenQuestions {
 public:
  // Returns the question's id.
  uint64_t Begin(int rank) {
    open_[++last_id_].rank = rank;
    return last_id_;
  }
  // What `rank` answered. Of a question that is not open, or that another rank was asked: nothing happens.
  void Answer(int rank, Enquiry answer) {
    const auto found = open_.find(answer.id);
    if (found == open_.end() || found->second.rank != rank || found->second.answer) return;
    if (answer.understood) {
      found->second.answer = std::move(answer.text);
    } else {
      found->second.answer = absl::UnimplementedError(absl::StrCat("rank ", rank, " answers no questions"));
    }
  }
  // No answer will come from `rank` any more; from nobody, if it is nothing.
  void Fail(std::optional<int> rank, const absl::Status& why) {
    for (auto& [id, question] : open_) {
      if ((!rank || question.rank == *rank) && !question.answer) question.answer = why;
    }
  }
  bool IsAnswered(uint64_t id) const { return open_.at(id).answer.has_value(); }
  // Forgets the question. Returns its answer, if there is one.
  std::optional<absl::StatusOr<std::string>> End(uint64_t id) {
    return std::move(open_.extract(id).mapped().answer);
  }

 private:
  struct Question {
    int rank = -1;
    std::optional<absl::StatusOr<std::string>> answer;
  };
  std::map<uint64_t, Question> open_;
  uint64_t last_id_ = 0;
};

}  // namespace medley
