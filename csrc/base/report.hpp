// Reports what goes wrong where it cannot be thrown: in destructors, fork handlers and daemons, or
// because the process recovers from it.
#pragma once

#include <cstdint>
#include <string>

namespace shmtensor {

enum class Severity : std::uint8_t {
  event,    ///< something failed elsewhere, and this process has recovered from it
  failure,  ///< memory stays allocated, messages may be lost
};

using ReportHook = void (*)(Severity severity, const char* text) noexcept;

/// Passes a failure to the hook, or writes it to standard error if no hook is set. A C string needs
/// no heap memory.
void report(const char* text) noexcept;
void report(const std::string& text) noexcept;
/// The same for both texts, one after the other.
void report(const char* what, const char* why) noexcept;

/// Passes an event to the hook, if one is set.
void report_event(const std::string& text) noexcept;

/// Writes the text of a failure to standard error.
void write_report(Severity severity, const char* text) noexcept;

void set_report_hook(ReportHook hook) noexcept;

}  // namespace shmtensor
