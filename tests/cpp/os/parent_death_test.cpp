#include "os/parent_death.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <array>
#include <thread>

#include "base/error.hpp"
#include "support/child.hpp"
#include "support/shared.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::eventually;
using testing::Shared;
using testing::Turn;

struct Lifeline {
  Fd reader;
  Fd writer;
  Lifeline() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_os("make a pipe");
    reader = Fd(ends[0]);
    writer = Fd(ends[1]);
  }
};

TEST(ParentDeath, KillsHolderWhenLastWriterCloses) {
  Lifeline line;
  const Fd second = line.writer.duplicate();
  Shared<Turn> turn;
  Child child([&] {
    line.writer.reset();
    const_cast<Fd&>(second).reset();
    arm_parent_death_signal(open_parent_death_pipe(line.reader.get()).release());
    turn->set(1);
    for (;;) ::pause();
  });
  ASSERT_TRUE(turn->reaches(1));
  line.writer.reset();
  EXPECT_TRUE(is_alive({child.pid(), 0})) << "a writer is left";
  const_cast<Fd&>(second).reset();
  EXPECT_EQ(child.wait(), -SIGKILL);
}

TEST(ParentDeath, KillsHolderThatArrivesLate) {
  Lifeline line;
  line.writer.reset();
  EXPECT_EQ(Child([&] {
              arm_parent_death_signal(open_parent_death_pipe(line.reader.get()).release());
            }).wait(),
            -SIGKILL);
}

TEST(ParentDeath, BoundByParentKillsUnawareProcess) {
  Lifeline line;
  Fd pipe_end = open_parent_death_pipe(line.reader.get());
  Child child([&] {
    line.writer.reset();
    for (;;) ::pause();
  });
  bind_parent_death_signal(pipe_end.get(), child.pid());
  pipe_end.reset();
  line.writer.reset();
  EXPECT_EQ(child.wait(), -parent_death_signal());
}

TEST(ParentDeath, KillsDescendantsOfEveryThread) {
  Lifeline line;
  Shared<std::array<std::atomic<pid_t>, 2>> pids;
  Child child([&] {
    line.writer.reset();
    arm_parent_death_signal(open_parent_death_pipe(line.reader.get()).release());
    std::thread([&] {
      if (::fork() == 0) {
        ::signal(parent_death_signal(), SIG_IGN);
        if (::fork() == 0) {
          (*pids)[1] = ::getpid();
          for (;;) ::pause();
        }
        (*pids)[0] = ::getpid();
        for (;;) ::pause();
      }
      for (;;) ::pause();
    }).join();
  });
  ASSERT_TRUE(eventually([&] { return (*pids)[0] != 0 && (*pids)[1] != 0; }));
  line.writer.reset();
  EXPECT_EQ(child.wait(), -SIGKILL);
  for (const auto& pid : *pids) {
    EXPECT_TRUE(eventually([&] { return !is_alive({pid.load(), 0}); }));
  }
}

TEST(ParentDeath, SignalFromOtherSenderIsIgnored) {
  Lifeline line;
  Shared<Turn> turn;
  Child child([&] {
    line.writer.reset();
    arm_parent_death_signal(open_parent_death_pipe(line.reader.get()).release());
    turn->set(1);
    ::pause();  // until the signal
    return 7;
  });
  ASSERT_TRUE(turn->reaches(1));
  // A signal that comes before pause() is lost on it: it is sent until the child has ended.
  EXPECT_TRUE(eventually([&] {
    child.kill(parent_death_signal());
    return !is_alive({child.pid(), 0});
  }));
  EXPECT_EQ(child.wait(), 7);
}

}  // namespace
}  // namespace shmtensor
