#include "os/program_run.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "os/process_stat.hpp"
#include "support/child.hpp"

namespace shmtensor {
namespace {

using testing::exit_of;

TEST(ProgramRun, OfForkedChildrenBeginsWithTheirParents) {
  const pid_t first = first_process_of_run();
  const auto found = [&] { return first_process_of_run() == first ? 0 : 1; };
  EXPECT_EQ(exit_of(found), 0);
  EXPECT_EQ(exit_of([&] { return exit_of(found); }), 0);
}

TEST(ProgramRun, StatShowsWhatForkedChildrenInherit) {
  const ProcessStat own = read_stat(::getpid());
  EXPECT_EQ(own.parent, ::getppid());
  EXPECT_NE(own.image.back(), 0u);
  EXPECT_EQ(exit_of([&] { return read_stat(::getpid()).image == own.image ? 0 : 1; }), 0);
  EXPECT_EQ(read_stat(0).start_time, 0u);
}

}  // namespace
}  // namespace shmtensor
