// The end of a pipe while threads of its last process take messages; the simulation has the others.
#include "queue/pipe_end.hpp"

#include <gtest/gtest.h>

#include "support/queue_world.hpp"

namespace shmtensor {
namespace {

class PipeEndTest : public testing::QueueWorld {
 protected:
  /// Ends an end that reads the queue.
  void hang_up() {
    const BlockNumber block = *arena_->allocate(sizeof(PipeEnd));
    auto& end = *reinterpret_cast<PipeEnd*>(arena_->bytes(block, Access::read_write).data());
    end.written.mark.store(0);
    end.read.write({.arena = arena_->segment().number(),
                    .block = queue_,
                    .generation = arena_->generation(queue_)});
    end.magic.store(kPipeEndMagic);
    arena_->set_contents(block, PipeEnd::contents());
    arena_->release(block);
    registry_.drain(*memory_, arena_->segment().number(), block);
    EXPECT_TRUE(header().is_shut_down());
  }
  /// A block that is in a message only.
  BlockNumber send_in(TicketRecord& record) {
    const BlockNumber message = *arena_->allocate(64);
    arena_->send(message, record);
    arena_->release(message);
    return message;
  }
};

TEST_F(PipeEndTest, FreesUnreadMessages) {
  const BlockNumber ring = make_container(*arena_, 4);
  arena_->send(ring, header().ring(0).ticket);
  arena_->release(ring);
  const BlockNumber message = send_in(entry_in(*arena_, ring, 2).ticket);
  hang_up();
  EXPECT_TRUE(is_free(message));
}

// Regression: its block may be another queue's ring by then.
TEST_F(PipeEndTest, LeavesARingThatIsBeingRetired) {
  const BlockNumber ring = make_container(*arena_, 4);
  const std::uint64_t offset = arena_->segment().record(ring).offset.load();
  arena_->send(ring, header().ring(0).ticket);
  arena_->release(ring);
  const NamedTicket named = *header().ring(0).ticket.read();
  arena_->set_contents(ring, {});
  arena_->cancel_send(ring, named.generation, named.ticket);
  const BlockNumber other = make_container(*arena_, 4);
  ASSERT_EQ(other, ring);
  ASSERT_EQ(arena_->segment().record(other).offset.load(), offset);
  const BlockNumber message = send_in(entry_in(*arena_, other, 2).ticket);
  hang_up();
  EXPECT_TRUE(is_live(message));
}

}  // namespace
}  // namespace shmtensor
