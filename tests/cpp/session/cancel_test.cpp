// A process cancels the message of another one.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "session/session.hpp"
#include "support/scarce_address_space.hpp"
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

  testing::with_scarce_address_space(
      [&] { EXPECT_THROW(other->cancel(sent, Strategy::file_descriptor), OsError); });

  EXPECT_EQ(other->manager().statistics().blocks, 1u);
  other->cancel(sent, Strategy::file_descriptor);
  EXPECT_EQ(other->manager().statistics().blocks, 0u);
}

}  // namespace
}  // namespace shmtensor
