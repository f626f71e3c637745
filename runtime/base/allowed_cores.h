#pragma once
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <vector>

// Which cores a thread may run on. A cpu_set_t has room for 1024, and the kernel refuses to fill one on a machine that may
// have more; these make room for as many as there are. Header alone, so that programs which link nothing of Medley can
// use it.
namespace medley {

// A set of cores of any size.
class CoreSet {
 public:
  // Empty; for cores [0, cores).
  explicit CoreSet(int cores) : bytes_(CPU_ALLOC_SIZE(cores)), set_(CPU_ALLOC(cores)) {
    if (set_ != nullptr) CPU_ZERO_S(bytes_, set_);
  }
  CoreSet(const CoreSet&) = delete;
  CoreSet& operator=(const CoreSet&) = delete;
  ~CoreSet() { CPU_FREE(set_); }

  // Null: the host has no memory for it.
  cpu_set_t* get() { return set_; }
  size_t bytes() const { return bytes_; }

 private:
  const size_t bytes_;
  cpu_set_t* const set_;
};

// Fills `cores`, ascending, from get(bytes, set), which answers as sched_getaffinity does, asking with ever larger sets
// while it says EINVAL. 0, or the system's error number; `cores` is then empty.
template <typename Get>
int ReadCores(const Get& get, std::vector<int>& cores) {
  constexpr int kMostCores = 1 << 22;  // what the kernel can be built for, many times over
  cores.clear();
  for (int room = CPU_SETSIZE; room <= kMostCores; room *= 2) {
    CoreSet set(room);
    if (set.get() == nullptr) return ENOMEM;
    if (get(set.bytes(), set.get()) == 0) {
      for (int core = 0; core < room; ++core) {
        if (CPU_ISSET_S(core, set.bytes(), set.get())) cores.push_back(core);
      }
      return 0;
    }
    if (errno != EINVAL) return errno;
  }
  return EINVAL;
}

// The cores that `thread` (0: the calling one) may run on, ascending. 0, or the system's error number.
inline int GetAllowedCores(pid_t thread, std::vector<int>& cores) {
  return ReadCores([thread](size_t bytes, cpu_set_t* set) { return sched_getaffinity(thread, bytes, set); },
                   cores);
}

// Lets `thread` (0: the calling one) run on `cores` alone, each at least 0. 0, or the system's error number: EINVAL, it
// may use none of them; ESRCH, there is no such thread.
inline int SetAllowedCores(pid_t thread, const std::vector<int>& cores) {
  int room = CPU_SETSIZE;
  for (const int core : cores) room = std::max(room, core + 1);
  CoreSet set(room);
  if (set.get() == nullptr) return ENOMEM;
  for (const int core : cores) CPU_SET_S(core, set.bytes(), set.get());
  return sched_setaffinity(thread, set.bytes(), set.get()) == 0 ? 0 : errno;
}

}  // namespace medley
