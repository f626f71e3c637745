#include "kernels/host/dynamic_library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace medley {

absl::StatusOr<DynamicLibrary> DynamicLibrary::Open(const std::string& what,
                                                    absl::Span<const char* const> names) {
  std::string words;
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return DynamicLibrary(what, name, handle);
    // The loader's words for the first name: the others are older versions, whose absence says nothing.
    const char* error = dlerror();
    if (words.empty() && error != nullptr) words = error;
  }
  return absl::UnavailableError(
      absl::StrCat(what, " is not on this machine: no ", absl::StrJoin(names, " or "), " (", words, ")"));
}

absl::StatusOr<void*> DynamicLibrary::Find(const char* symbol) const {
  if (void* address = dlsym(handle_, symbol)) return address;
  return absl::UnavailableError(absl::StrCat(what_, " is too old: ", name_, " has no ", symbol));
}

}  // namespace medley
