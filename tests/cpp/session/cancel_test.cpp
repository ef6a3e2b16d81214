// A process cancels the message of another one.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <utility>

#include "base/align.hpp"
#include "base/error.hpp"
#include "os/mapping.hpp"
#include "session/session.hpp"
#include "support/server.hpp"

namespace shmtensor {
namespace {

using CancelTest = testing::ServerTest;

TEST_F(CancelTest, ReportsThatTheSendersTableCannotBeMapped) {
  Budget budget;
  const auto sender = Session::connect(id_, Session::Start::always, {}, budget);
  const auto other = Session::connect(id_, Session::Start::always, {}, budget);
  const Block block = sender->allocate(100, Strategy::file_descriptor);
  const Arena& arena = *block.arena;
  const NamedTicket sent{arena.segment().number(), block.number, arena.generation(block.number),
                         block.arena->send(block.number)};
  block.arena->release(block.number);
  ASSERT_TRUE(other->attach(sent.arena, Strategy::file_descriptor));

  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &limit), 0);
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  // Not enough for a table, but for the heap.
  const rlim_t before = std::exchange(limit.rlim_cur, pages * page_size() + 8 * kMiB);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_THROW(other->cancel(sent, Strategy::file_descriptor), OsError);
  limit.rlim_cur = before;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);

  EXPECT_EQ(other->manager().statistics().blocks, 1u);
  other->cancel(sent, Strategy::file_descriptor);
  EXPECT_EQ(other->manager().statistics().blocks, 0u);
}

}  // namespace
}  // namespace shmtensor
