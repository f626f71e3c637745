#pragma once
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

// A library opens as a table of function pointers, typed by its own header, one member a function and named
// like it:
//
//   #define EACH_FUNCTION(X) X(cosh) X(cbrt)
//   struct Mathematics { EACH_FUNCTION(MEDLEY_DYNAMIC_MEMBER) };
//   RETURN_IF_ERROR(library.Resolve("cosh", &table.cosh)), or for all:
//   EACH_FUNCTION(MEDLEY_RESOLVE_MEMBER)
//
// A header may rename a function by a macro (open is open64): the member, its type and the symbol that is
// looked up follow it together, and so does the call table.open(...).
#define MEDLEY_DYNAMIC_MEMBER(name) decltype(&::name) name = nullptr;
#define MEDLEY_SYMBOL_TEXT_INNER(name) #name
#define MEDLEY_SYMBOL_TEXT(name) MEDLEY_SYMBOL_TEXT_INNER(name)
// In a function with `library` and `table` that returns a Status.
#define MEDLEY_RESOLVE_MEMBER(name) RETURN_IF_ERROR(library.Resolve(MEDLEY_SYMBOL_TEXT(name), &table.name));

namespace medley {

// A shared library of this machine. It stays open for good: drivers do not take being unloaded. Copies are
// the same library.
class DynamicLibrary {
 public:
  // The first of `names` that the dynamic loader finds. `what` names the library to people, as in "the GPU
  // driver". Unavailable: none; the message has `what`, the names, and the loader's words.
  static absl::StatusOr<DynamicLibrary> Open(const std::string& what, absl::Span<const char* const> names);

  // Unavailable: the library has no `symbol`: it is older than the header this was built with.
  template <typename Function>
  absl::Status Resolve(const char* symbol, Function** function) const {
    absl::StatusOr<void*> address = Find(symbol);
    if (!address.ok()) return address.status();
    *function = reinterpret_cast<Function*>(*address);
    return absl::OkStatus();
  }

 private:
  DynamicLibrary(std::string what, std::string name, void* handle)
      : what_(std::move(what)), name_(std::move(name)), handle_(handle) {}
  absl::StatusOr<void*> Find(const char* symbol) const;

  std::string what_, name_;
  void* handle_;
};

// The one table of its type in this process: at the first call the library is opened and `resolve` fills the table, which
// lives for ever, as does a failure. Any thread. Errors: those of DynamicLibrary::Open and of `resolve`.
template <typename Table>
absl::StatusOr<const Table*> LoadedTable(const std::string& what, absl::Span<const char* const> names,
                                         absl::Status (*resolve)(const DynamicLibrary& library,
                                                                 Table& table)) {
  static const auto& loaded = *new absl::StatusOr<const Table*>([&]() -> absl::StatusOr<const Table*> {
    static Table table;
    const absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open(what, names);
    if (!library.ok()) return library.status();
    if (absl::Status resolved = resolve(*library, table); !resolved.ok()) return resolved;
    return &table;
  }());
  return loaded;
}

}  // namespace medley
