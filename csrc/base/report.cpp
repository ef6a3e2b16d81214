#include "base/report.hpp"

#include <array>
#include <cstdio>

#include "base/atomic.hpp"

namespace shmtensor {
namespace {

Atomic<ReportHook> g_hook{nullptr};

void pass_on(Severity severity, const char* text) noexcept {
  const ReportHook hook = g_hook.load(std::memory_order_acquire);
  (hook != nullptr ? hook : &write_report)(severity, text);
}

}  // namespace

void report(const char* text) noexcept { pass_on(Severity::failure, text); }

void report(const std::string& text) noexcept { report(text.c_str()); }

void report(const char* what, const char* why) noexcept {
  std::array<char, 1024> text{};  // a longer one is cut
  std::snprintf(text.data(), text.size(), "%s%s", what, why);
  pass_on(Severity::failure, text.data());
}

void report_event(const std::string& text) noexcept { pass_on(Severity::event, text.c_str()); }

void write_report(Severity severity, const char* text) noexcept {
  if (severity == Severity::failure) std::fprintf(stderr, "shmtensor: %s\n", text);
}

void set_report_hook(ReportHook hook) noexcept { g_hook.store(hook, std::memory_order_release); }

}  // namespace shmtensor
