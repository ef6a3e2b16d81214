#include "base/report.hpp"

#include <atomic>
#include <cstdio>

namespace shmtensor {
namespace {

std::atomic<ReportHook> g_hook{nullptr};

}  // namespace

void report(const std::string& text) noexcept {
  if (ReportHook hook = g_hook.load(std::memory_order_acquire)) {
    hook(text.c_str());
  } else {
    std::fprintf(stderr, "shmtensor: %s\n", text.c_str());
  }
}

void set_report_hook(ReportHook hook) noexcept { g_hook.store(hook, std::memory_order_release); }

}  // namespace shmtensor
