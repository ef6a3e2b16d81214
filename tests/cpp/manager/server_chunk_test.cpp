// Descriptors of device memory that the manager keeps for an arena's owner.
#include <gtest/gtest.h>

#include "arena/segment.hpp"
#include "os/memfd.hpp"
#include "support/server.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::kSmall;

class ServerChunks : public testing::ServerTest {
 protected:
  std::optional<Reply> ask(const Joined& who, MessageKind kind, const Fd* fd = nullptr) {
    Message message = message_for(kind, id_);
    message.arena = 1;
    message.chunk = 3;
    return who.client->ask(message, fd);
  }

  const Joined owner_ = join();
  const Joined other_ = join();
};

TEST_F(ServerChunks, OnlyTheArenaOwnerReleasesAChunk) {
  const auto segment =
      Segment::create(id_, 1, owner_.slot, owner_.incarnation, Strategy::external, kSmall);
  const Segment::File file = segment->file();
  EXPECT_EQ(ask(owner_, MessageKind::register_arena, &*file)->message.kind, MessageKind::done);
  const Fd memory = create_memfd("chunk");
  EXPECT_EQ(ask(owner_, MessageKind::keep_chunk, &memory)->message.kind, MessageKind::done);
  EXPECT_EQ(ask(other_, MessageKind::drop_chunk)->message.kind, MessageKind::refused);
  EXPECT_EQ(ask(other_, MessageKind::find_chunk)->fd.identity(), memory.identity());
  EXPECT_EQ(ask(owner_, MessageKind::drop_chunk)->message.kind, MessageKind::done);
  EXPECT_EQ(ask(other_, MessageKind::find_chunk)->message.kind, MessageKind::unknown);
}

}  // namespace
}  // namespace shmtensor
