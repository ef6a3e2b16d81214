#include "arena/session_memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <thread>

#include "base/error.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/process.hpp"
#include "os/procfs.hpp"
#include "support/child.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor {
namespace {

class SessionMemoryTest : public testing::WorldTest {
 protected:
  [[nodiscard]] std::unique_ptr<SessionMemory> reopened() const {
    return SessionMemory::open(memory_->id(), memory_->file().duplicate());
  }
  [[nodiscard]] std::string refusal(const SessionId& id, Fd file) const {
    try {
      static_cast<void>(SessionMemory::open(id, std::move(file)));
      return "";
    } catch (const SessionError& error) {
      const std::string text = error.what();
      return text.substr(text.rfind(": ") + 2);
    }
  }
};

TEST_F(SessionMemoryTest, HeaderDescribesTheSession) {
  const SessionHeader& header = memory_->header();
  EXPECT_EQ(header.magic, kSessionMagic);
  EXPECT_EQ(header.version, kSessionVersion);
  EXPECT_NE(header.key.low | header.key.high, 0u);
  EXPECT_TRUE(is_sealed_against_shrinking(memory_->file()));
  EXPECT_NE(::fcntl(memory_->file().get(), F_ADD_SEALS, F_SEAL_GROW), 0) << "by a peer";
  const std::string name = "/memfd:" + SessionMemory::file_name(memory_->id());
  EXPECT_EQ(open_files(::getpid(), name).size(), 1u);
  EXPECT_LT(file_usage(memory_->file()), 256 * 1024u)
      << "pages are reserved when slots are assigned";
  const auto other = SessionMemory::create(testing::fresh_session());
  EXPECT_NE(other->header().key.low, header.key.low);
}

TEST_F(SessionMemoryTest, PeerSeesTheSameHeader) {
  const auto peer = reopened();
  EXPECT_EQ(peer->id(), memory_->id());
  memory_->slot(5).pid.store(123);
  EXPECT_EQ(peer->slot(5).pid.load(), 123);
  peer->transit(1000).group_count.store(3);
  EXPECT_EQ(memory_->transit(1000).group_count.load(), 3u);
  EXPECT_EQ(memory_->transit(999).group_count.load(), 0u);
  testing::in_child([&] { reopened()->header().deaths.fetch_add(2); });
  EXPECT_EQ(memory_->header().deaths.load(), 2u);
}

TEST_F(SessionMemoryTest, ArenaNumbersAreUnique) {
  std::vector<ArenaNumber> numbers(4 * 500);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t i = 0; i < 500; ++i) numbers[t * 500 + i] = memory_->new_arena_number();
      });
    }
  }
  const std::set<ArenaNumber> distinct(numbers.begin(), numbers.end());
  EXPECT_EQ(distinct.size(), numbers.size());
  EXPECT_EQ(*distinct.begin(), 1u) << "0 is none";
}

TEST_F(SessionMemoryTest, TicketTablesAreMappedOnce) {
  EXPECT_EQ(memory_->mapping_count(), 1);
  std::vector<TransitTable*> tables(4);
  {
    std::vector<std::jthread> threads;
    for (TransitTable*& table : tables) {
      threads.emplace_back([&] { table = &memory_->transit(9); });
    }
  }
  for (const TransitTable* table : tables) EXPECT_EQ(table, tables[0]);
  EXPECT_EQ(memory_->mapping_count(), 2);
  EXPECT_NE(&memory_->transit(10), tables[0]);
  EXPECT_EQ(&memory_->transit(9 + kMaxSlots), tables[0]) << "a slot from a peer stays in range";
}

TEST_F(SessionMemoryTest, TablesAreStoredConsecutively) {
  EXPECT_GE(SessionMemory::transit_offset(0), sizeof(SessionHeader));
  for (SlotNumber slot = 1; slot < kMaxSlots; ++slot) {
    EXPECT_EQ(SessionMemory::transit_offset(slot),
              SessionMemory::transit_offset(slot - 1) + sizeof(TransitTable));
  }
  EXPECT_EQ(SessionMemory::transit_offset(kMaxSlots - 1) + sizeof(TransitTable) + sizeof(NameTable),
            file_size(memory_->file()))
      << "the table of names comes last";
}

TEST_F(SessionMemoryTest, RejectsForeignMemory) {
  const SessionId id = memory_->id();
  EXPECT_EQ(refusal({id.high, id.low + 1}, memory_->file().duplicate()),
            "the session id does not match");
  EXPECT_EQ(refusal(id, create_memfd("empty")), "not a regular file of the expected size");
  EXPECT_EQ(refusal(id, Fd(::open("/tmp", O_RDONLY | O_CLOEXEC))),
            "not a regular file of the expected size");
  Fd unsealed = create_memfd("unsealed");
  set_file_size(unsealed, file_size(memory_->file()));
  EXPECT_EQ(refusal(id, unsealed.duplicate()), "the memfd is not sealed against shrinking");
  seal_against_shrinking(unsealed);
  EXPECT_EQ(refusal(id, unsealed.duplicate()),
            "the file was not created by this version of shmtensor");
  EXPECT_THROW(static_cast<void>(SessionMemory::open(id, Fd())), OsError);
  if (::geteuid() == 0) {
    ASSERT_EQ(::fchown(unsealed.get(), 1, 1), 0);
    EXPECT_EQ(refusal(id, std::move(unsealed)), "the file belongs to another user");
  }
  ++memory_->header().version;
  EXPECT_EQ(refusal(id, memory_->file().duplicate()),
            "the file was not created by this version of shmtensor");
}

TEST_F(SessionMemoryTest, ExternallyClosedDescriptorIsDetected) {
  const auto peer = reopened();
  ASSERT_EQ(peer->descriptor_or_none(), peer->file().get());
  const int number = peer->file().get();
  ASSERT_EQ(::close(number), 0);
  EXPECT_THROW(static_cast<void>(peer->file()), SessionError);
  EXPECT_EQ(peer->descriptor_or_none(), -1);
  EXPECT_THROW(static_cast<void>(peer->transit(1)), SessionError);
  EXPECT_EQ(peer->id(), memory_->id()) << "mapped memory remains";
}

TEST_F(SessionMemoryTest, ReusedDescriptorNumberIsNotClosed) {
  auto peer = reopened();
  const int number = peer->file().get();
  ASSERT_EQ(::close(number), 0);
  const Fd other = create_memfd("unrelated");
  ASSERT_EQ(other.get(), number);
  peer.reset();
  EXPECT_NO_THROW(static_cast<void>(other.identity())) << "it was closed with the memory";
}

// In two PID namespaces, threads of two managers may have the same id.
TEST_F(SessionMemoryTest, NoticesANewManagerWithTheThreadNumberOfTheOldOne) {
  SessionHeader& header = memory_->header();
  header.manager.store(77);
  header.manager_starts.store(1);
  memory_->record_manager();
  EXPECT_FALSE(memory_->manager_changed());
  header.manager_starts.store(2);
  EXPECT_TRUE(memory_->manager_changed());
  memory_->record_manager();
  EXPECT_FALSE(memory_->manager_changed());
  header.manager.store(78);
  EXPECT_TRUE(memory_->manager_changed());
}

}  // namespace
}  // namespace shmtensor
