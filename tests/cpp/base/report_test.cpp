#include "base/report.hpp"

#include <gtest/gtest.h>

#include "support/scarce_heap.hpp"

namespace shmtensor {
namespace {

std::string g_heard;

TEST(Report, UsesHookOrStandardError) {
  set_report_hook([](Severity, const char* text) noexcept { g_heard = text; });
  report("something is odd");
  set_report_hook(nullptr);
  EXPECT_EQ(g_heard, "something is odd");

  ::testing::internal::CaptureStderr();
  report("something else");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "shmtensor: something else\n");
  EXPECT_EQ(g_heard, "something is odd");
}

// Regression: the text was copied, which ended a process whose heap was exhausted.
TEST(Report, NeedsNoHeap) {
  static int reports = 0;
  set_report_hook([](Severity, const char*) noexcept { ++reports; });
  {
    const testing::ScarceHeap heap(0);
    report("a text that is too long for the place in a string itself");
    report("a text that is too long for the place in a string: ", "itself");
  }
  set_report_hook(nullptr);
  EXPECT_EQ(reports, 2);
}

TEST(Report, PassesEventsToTheHookOnly) {
  set_report_hook([](Severity severity, const char* text) noexcept {
    g_heard = severity == Severity::event ? text : "";
  });
  report_event("recovered");
  set_report_hook(nullptr);
  EXPECT_EQ(g_heard, "recovered");

  ::testing::internal::CaptureStderr();
  report_event("recovered again");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace shmtensor
