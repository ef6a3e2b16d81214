// The one channel for failures that cannot be thrown: destructors, fork handlers, daemons.
#pragma once

#include <string>

namespace shmtensor {

using ReportHook = void (*)(const char* text) noexcept;

/// Sends the text to the hook, or to standard error when none is set.
void report(const std::string& text) noexcept;

void set_report_hook(ReportHook hook) noexcept;

}  // namespace shmtensor
