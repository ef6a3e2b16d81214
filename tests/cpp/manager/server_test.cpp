// Replies of the manager.
#include "manager/server.hpp"

#include <gtest/gtest.h>

#include <array>

#include "arena/session_memory.hpp"
#include "arena/transit.hpp"
#include "os/memfd.hpp"
#include "os/process.hpp"
#include "os/procfs.hpp"
#include "support/server.hpp"

namespace shmtensor {
namespace {

using testing::Client;
using testing::eventually;
using testing::ServerTest;

TEST_F(ServerTest, HelloMayStartTheSession) {
  Client client(id_);
  EXPECT_EQ(client.hello(Join::existing)->message.kind, MessageKind::unknown);
  EXPECT_EQ(client.hello(Join::observe)->message.kind, MessageKind::unknown);
  const auto reply = client.hello(Join::create);
  EXPECT_EQ(reply->message.kind, MessageKind::welcome);
  EXPECT_EQ(reply->message.slot, 0u);
  EXPECT_EQ(reply->message.incarnation, 1u);
  const auto memory = SessionMemory::open(id_, reply->fd.duplicate());
  EXPECT_EQ(memory->header().manager_starts.load(), 1u);
  const SlotRecord& record = memory->slot(0);
  EXPECT_EQ(record.status.load(), SlotStatus::joining);
  EXPECT_TRUE(memory->enter(0, SlotStatus::joining));
  EXPECT_EQ(record.status.load(), SlotStatus::active);
  EXPECT_FALSE(memory->enter(0, SlotStatus::joining)) << "it has entered already";
  EXPECT_FALSE(memory->enter(1, SlotStatus::joining)) << "no process has requested it";
  EXPECT_EQ(record.pid.load(), ::getpid());
  EXPECT_EQ(record.start_time.load(), start_time_of(::getpid()));

  Client second(id_);
  const auto joined = second.hello(Join::existing);
  EXPECT_EQ(joined->message.slot, 1u);
  EXPECT_EQ(joined->fd.identity(), reply->fd.identity());
}

TEST_F(ServerTest, ConnectionHasOneSlot) {
  Client client(id_);
  ASSERT_EQ(client.hello(Join::create)->message.kind, MessageKind::welcome);
  EXPECT_EQ(refusal(client.hello(Join::create)), "this connection already has a slot");
  EXPECT_EQ(statistics(client).processes, 1u);
}

TEST_F(ServerTest, ObserverTakesNoSlot) {
  const Joined member = join();
  Client observer(id_);
  EXPECT_EQ(observer.hello(Join::observe)->message.kind, MessageKind::welcome);
  EXPECT_EQ(statistics(observer).processes, 1u);
  EXPECT_EQ(observer.ask(MessageKind::collect)->message.kind, MessageKind::done);
  EXPECT_EQ(refusal(observer.ask(MessageKind::register_arena)),
            "no session joined on this connection");
  EXPECT_EQ(refusal(observer.ask(MessageKind::find_arena)), "no session joined on this connection");
  EXPECT_EQ(refusal(observer.ask(MessageKind::fork)), "no session joined on this connection");
}

TEST_F(ServerTest, RequestsBeforeHelloAreRejected) {
  Client client(id_);
  for (const MessageKind kind :
       {MessageKind::register_arena, MessageKind::find_arena, MessageKind::fork,
        MessageKind::statistics, MessageKind::collect, MessageKind::welcome}) {
    EXPECT_EQ(refusal(client.ask(kind)), "no session joined on this connection");
  }
  const Joined member = join();
  EXPECT_EQ(refusal(client.ask(MessageKind::find_arena)), "no session joined on this connection")
      << "its own";
}

TEST_F(ServerTest, RejectsMalformedMessagesAndCloses) {
  const auto refused = [&](auto&& damage) {
    Client client(id_);
    Message message = message_for(MessageKind::statistics, id_);
    damage(message);
    EXPECT_EQ(refusal(client.ask(message)), "malformed request");
    EXPECT_EQ(client.receive().has_value(), false);
  };
  const Joined member = join();
  refused([](Message& message) { ++message.magic; });
  refused([](Message& message) { ++message.version; });
  refused([](Message& message) { ++message.session.low; });
  refused([](Message& message) { ++message.session.high; });
  EXPECT_EQ(statistics(*member.client).processes, 1u) << "others are not disturbed";
}

TEST_F(ServerTest, MessagesOfWrongLengthAreRejected) {
  const Joined member = join();
  {
    Client client(id_);
    client.send_bytes(std::array<std::byte, 10>{});
    EXPECT_EQ(refusal(client.receive()), "malformed request");
    EXPECT_FALSE(client.receive());
  }
  Client client(id_);
  client.send_bytes(std::array<std::byte, sizeof(Message) + 1>{});
  EXPECT_NE(refusal(client.receive()).find("EMSGSIZE"), std::string::npos);
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

TEST_F(ServerTest, UnknownRequestsAreRejectedAndConnectionKept) {
  const Joined member = join();
  EXPECT_EQ(refusal(member.client->ask(static_cast<MessageKind>(999))), "unknown request type");
  EXPECT_EQ(refusal(member.client->ask(MessageKind::done)), "unknown request type");
  EXPECT_EQ(member.client->ask(MessageKind::statistics)->message.kind, MessageKind::done);
}

TEST_F(ServerTest, ClientThatNeverReadsIsDisconnectedWithoutDelay) {
  const Joined member = join();
  Client deaf(id_);
  const Message message = message_for(MessageKind::statistics, id_);
  bool dropped = false;
  for (int i = 0; i < 5'000 && !dropped; ++i) {
    try {
      deaf.send_bytes(std::as_bytes(std::span(&message, 1)));
    } catch (const OsError&) {
      dropped = true;
    }
  }
  EXPECT_TRUE(dropped);
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

// The socket of a fork request is configured by its sender, which may change it later.
TEST_F(ServerTest, MemberWithBlockingSocketThatNeverReadsIsDisconnected) {
  const Joined member = join();
  auto [ours, childs] = socket_pair();
  ::fcntl(ours.get(), F_SETFL, 0);
  ::fcntl(childs.get(), F_SETFL, O_NONBLOCK);
  ASSERT_EQ(member.client->ask(MessageKind::fork, &ours)->message.kind, MessageKind::done);
  Client deaf(id_, std::move(childs));
  const Message message = message_for(MessageKind::statistics, id_);
  const auto dropped = [&] {
    try {
      for (;;) deaf.send_bytes(std::as_bytes(std::span(&message, 1)));
    } catch (const OsError& error) {
      return error.code() != EAGAIN;
    }
  };
  ours.reset();
  EXPECT_TRUE(eventually(dropped, std::chrono::seconds(5)));
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

TEST_F(ServerTest, UnexpectedDescriptorsAreClosed) {
  const Joined member = join();
  const auto held = [&] { return open_files(server_->pid(), "/memfd:unasked").size(); };
  const Fd file = create_memfd("unasked");
  EXPECT_EQ(member.client->ask(MessageKind::statistics, &file)->message.kind, MessageKind::done);
  EXPECT_EQ(member.client->ask(MessageKind::statistics, &file)->message.kind, MessageKind::done);
  EXPECT_EQ(member.client->ask(MessageKind::statistics)->message.kind, MessageKind::done);
  EXPECT_EQ(held(), 0u);
}

TEST_F(ServerTest, CountsAndCollectsUnreadMessages) {
  const Joined member = join();
  TransitWriter writer(*member.memory, member.slot);
  for (BlockNumber block = 0; block < 40; ++block) static_cast<void>(writer.issue(1, block, 0));
  EXPECT_EQ(statistics(*member.client).in_flight, 40u);
  Message message = message_for(MessageKind::collect, id_);
  message.number = 60'000;
  EXPECT_EQ(member.client->ask(message)->message.number, 0u) << "they are not so old";
  message.number = 0;
  EXPECT_EQ(member.client->ask(message)->message.number, 40u);
  EXPECT_EQ(statistics(*member.client).in_flight, 0u);
}

TEST_F(ServerTest, PersistentTicketsAreNeitherUnreadNorCollected) {
  const Joined member = join();
  TransitWriter writer(*member.memory, member.slot);
  TransitTable& table = member.memory->transit(member.slot);
  const Ticket message = writer.issue(1, 5, 0);
  const Ticket kept = writer.issue(1, 5, 0, TicketOf::name);
  EXPECT_NE(message.group, kept.group) << "they share no group";
  EXPECT_EQ(statistics(*member.client).in_flight, 2u) << "not kept yet";
  table.keep(kept, NameTable::mark_of(7, 1));
  EXPECT_EQ(statistics(*member.client).in_flight, 1u);
  EXPECT_NE(writer.issue(1, 5, 0).group, kept.group);
  Message collect = message_for(MessageKind::collect, id_);
  EXPECT_EQ(member.client->ask(collect)->message.number, 2u);
  EXPECT_TRUE(table.has_live(1, 5, 0));
  EXPECT_TRUE(table.claim(kept, 1, 5, 0));
  EXPECT_FALSE(table.has_live(1, 5, 0));
}

}  // namespace
}  // namespace shmtensor
