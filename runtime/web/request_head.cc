#include "runtime/web/request_head.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace medley {

void RequestHead::Refuse(int status, std::string why) {
  state_ = State::kRefused;
  status_ = status;
  why_ = std::move(why);
}

void RequestHead::TakeByte(char byte) {
  ++line_bytes_;
  const bool is_blank = line_bytes_ == 2 && last_ == '\r' && byte == '\n';
  last_ = byte;
  if (++bytes_ > kMostBytes)
    return Refuse(431, absl::StrCat("the request's head may have ", kMostBytes, " bytes"));
  if (line_bytes_ > kMostLineBytes) {
    return lines_ == 0 ? Refuse(414, absl::StrCat("the request line may have ", kMostLineBytes, " bytes"))
                       : Refuse(431, absl::StrCat("a header may have ", kMostLineBytes, " bytes"));
  }
  if (byte != '\n') return;
  if (lines_ > 0 && is_blank) {
    state_ = State::kComplete;
    return;
  }
  line_bytes_ = 0;
  if (++lines_ > kMostHeaders + 1) Refuse(431, absl::StrCat("a request may have ", kMostHeaders, " headers"));
}

size_t RequestHead::Take(absl::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size() && state_ == State::kIncomplete) TakeByte(bytes[taken++]);
  return taken;
}

std::string WithoutRange(absl::string_view head) {
  std::string kept;
  while (!head.empty()) {
    const absl::string_view line =
        head.substr(0, head.find('\n') == head.npos ? head.npos : head.find('\n') + 1);
    head.remove_prefix(line.size());
    if (!absl::StartsWithIgnoreCase(line, "range:")) absl::StrAppend(&kept, line);
  }
  return kept;
}

}  // namespace medley
