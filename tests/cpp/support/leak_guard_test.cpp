// The leak guard reports leaks.
#include "support/leak_guard.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "arena/segment.hpp"
#include "os/mapping.hpp"
#include "os/memfd.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"
#include "support/child.hpp"
#include "support/names.hpp"

namespace shmtensor::testing {
namespace {

TEST(LeakGuard, ReportsNothingWithoutLeaks) {
  const Belongings before = Belongings::now();
  EXPECT_TRUE(Belongings::now().since(before).empty());
}

TEST(LeakGuard, ReportsDescriptor) {
  const Belongings before = Belongings::now();
  const Fd file = create_memfd("leak");
  EXPECT_EQ(Belongings::now().since(before).size(), 1u);
}

TEST(LeakGuard, ReportsMappingWithoutDescriptor) {
  const Belongings before = Belongings::now();
  Mapping mapping;
  {
    const Fd file = create_memfd(object_name(fresh_session()));
    mapping = Mapping::of_file(file, 0, page_size(), Access::read_write);
  }
  EXPECT_EQ(Belongings::now().since(before), std::vector<std::string>{"1 mappings"});
}

TEST(LeakGuard, ReportsNamesOfThisRunOnly) {
  const Belongings before = Belongings::now();
  const std::string name = arena_name(fresh_session(), 1);
  static_cast<void>(create_shm(name));
  EXPECT_EQ(Belongings::now().since(before), std::vector<std::string>{"/dev/shm entry " + name});
  EXPECT_TRUE(unlink_shm(name));
}

TEST(LeakGuard, ReportsManagerSocket) {
  const Belongings before = Belongings::now();
  const auto socket = listen_on(object_name(fresh_session()));
  EXPECT_EQ(Belongings::now().since(before).size(), 2u);  // the name and the descriptor
}

TEST(LeakGuard, ReportsChild) {
  const Belongings before = Belongings::now();
  Child child([] { ::pause(); });
  EXPECT_EQ(Belongings::now().since(before), std::vector<std::string>{"a child process"});
  child.kill_and_reap();
  EXPECT_TRUE(Belongings::now().since(before).empty());
}

TEST(Child, ReportsExitStatus) {
  exit_of([] {});
  EXPECT_EQ(exit_of([] { return 7; }), 7);
  EXPECT_EQ(exit_of([] { ::raise(SIGTERM); }), -SIGTERM);
  EXPECT_EQ(exit_of([] { throw Error("on purpose"); }), 1);
}

TEST(Child, ReportsThatItsAlarmEndedIt) {
  Child child([] { ::raise(SIGALRM); });
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT), 0);
  EXPECT_NONFATAL_FAILURE(child.kill_and_reap(), "was ended by its alarm");
}

}  // namespace
}  // namespace shmtensor::testing
