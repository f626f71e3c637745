#include "runtime/engine/shard/layer_home.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/status_macros.h"
#include "runtime/device/pinned_room.h"

namespace medley {

absl::StatusOr<std::unique_ptr<LayerHome>> LayerHome::Create(
    DeviceQueue& queue, const std::vector<std::vector<int64_t>>& elements, const char* what) {
  Bytes need;
  for (const std::vector<int64_t>& layers : elements) {
    for (const int64_t count : layers) need += Bytes{4 * count};
  }
  std::unique_ptr<LayerHome> home(new LayerHome());
  ASSIGN_OR_RETURN(home->fetch_lane_, queue.OpenCopyLane());
  RETURN_IF_ERROR(CheckPinnedRoom(*home->fetch_lane_, need, absl::StrCat(what, " that live in host memory")));
  ASSIGN_OR_RETURN(home->store_lane_, queue.OpenCopyLane());
  for (const std::vector<int64_t>& layers : elements) {
    const int64_t all = std::accumulate(layers.begin(), layers.end(), int64_t{0});
    ASSIGN_OR_RETURN(std::unique_ptr<PinnedMemory> memory, home->fetch_lane_->AllocatePinned({4 * all}));
    const absl::Span<float> values(reinterpret_cast<float*>(memory->bytes().data()), all);
    ZeroHostMemory(memory->bytes().data(), 4 * all);
    std::vector<absl::Span<float>>& of_layers = home->values_.emplace_back();
    int64_t next = 0;
    for (const int64_t count : layers) {
      of_layers.push_back(values.subspan(next, count));
      next += count;
    }
    home->memory_.push_back(std::move(memory));
  }
  return home;
}

LayerHome::~LayerHome() {
  store_lane_ = nullptr;  // ends its copies
  if (fetch_lane_ != nullptr) (void)fetch_lane_->Wait(fetch_lane_->Record());
  memory_.clear();  // before the lane that it is of
}

absl::Span<float> LayerHome::Values(int part, int layer) { return values_[part][layer]; }

Bytes LayerHome::size() const {
  Bytes all;
  for (const std::unique_ptr<PinnedMemory>& memory : memory_)
    all += Bytes{static_cast<int64_t>(memory->bytes().size())};
  return all;
}

absl::Status LayerHome::Fetch(absl::Span<const float> values, Buffer& to, Bytes offset) {
  RETURN_IF_ERROR(fetch_lane_->Upload(
      {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)}, to, offset));
  return fetch_lane_->Wait(fetch_lane_->Record());
}

absl::Status LayerHome::Store(Buffer& from, Bytes offset, absl::Span<float> values) {
  RETURN_IF_ERROR(store_lane_->Download(
      from, offset, {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)}));
  return store_lane_->Wait(store_lane_->Record());
}

}  // namespace medley
