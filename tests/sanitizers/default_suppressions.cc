// What the sanitizers are to pass over, each with its reason. Compiled in, so that no path is needed; without
// a sanitizer nobody calls these.

extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions();

// Blocks that UCX 1.13 allocates through its own allocator and still holds when the process ends: about ten,
// some 450 bytes, seen with every test that opens a UCX worker. Not traced further, as the packaged library
// has no symbols for it. This hides what is allocated below a frame of these two libraries, which includes
// callbacks of ours. PoCL 3.1 keeps what it and LLVM have allocated to compile a kernel: 2.9 MB in a test that compiles 35.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libucs.so\n"
         "leak:libuct.so\n"
         "leak:libpocl.so\n"
         "leak:libLLVM\n";
}

// When the process ends, UCX destroys a lock that the thread of a worker left behind (comm/ucx/DESIGN.md) has
// used. Seen in ucx_process_test. UCX is not instrumented, and this hides races with a frame of this library
// on either side. Neither is Abseil: that an absl::Status frees its message behind all who have read it, by a count that is atomic,
// is not seen there.
extern "C" const char* __tsan_default_suppressions() {
  return "race:libucs.so\n"
         "race:Status::Unref\n";
}
