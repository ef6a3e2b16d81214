// Reports failures that cannot be thrown: those of destructors, fork handlers and daemons.
#pragma once

#include <string>

namespace shmtensor {

using ReportHook = void (*)(const char* text) noexcept;

/// Passes the text to the hook, or writes it to standard error if no hook is set.
void report(const std::string& text) noexcept;
/// The same for both texts, one after the other, without heap memory.
void report(const char* what, const char* why) noexcept;

void set_report_hook(ReportHook hook) noexcept;

}  // namespace shmtensor
