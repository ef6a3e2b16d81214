#include "base/report.hpp"

#include <array>
#include <atomic>
#include <cstdio>

namespace shmtensor {
namespace {

std::atomic<ReportHook> g_hook{nullptr};

void pass_on(const char* text) noexcept {
  if (ReportHook hook = g_hook.load(std::memory_order_acquire)) {
    hook(text);
  } else {
    std::fprintf(stderr, "shmtensor: %s\n", text);
  }
}

}  // namespace

void report(const std::string& text) noexcept { pass_on(text.c_str()); }

void report(const char* what, const char* why) noexcept {
  std::array<char, 1024> text{};  // a longer one is cut
  std::snprintf(text.data(), text.size(), "%s%s", what, why);
  pass_on(text.data());
}

void set_report_hook(ReportHook hook) noexcept { g_hook.store(hook, std::memory_order_release); }

}  // namespace shmtensor
