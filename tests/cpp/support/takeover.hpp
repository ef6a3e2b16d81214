// A session whose manager is killed, so that another one takes over.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "arena/segment.hpp"
#include "os/shm_object.hpp"
#include "support/server.hpp"
#include "support/world.hpp"

namespace shmtensor::testing {

class Takeover : public ServerTest {
 protected:
  ~Takeover() override {
    for (const std::string& name : list_shm(object_name(id_))) unlink_shm(name);
  }

  void replace_server() {
    server_->kill();
    server_ = std::make_unique<ServerProcess>(id_);
  }
  [[nodiscard]] static std::string hello_again(Joined& joined, const Fd* file) {
    joined.client = std::make_unique<Client>(joined.memory->id());
    Message message = message_for(MessageKind::hello, joined.memory->id());
    message.slot = joined.slot;
    message.incarnation = joined.incarnation;
    return refusal(joined.client->ask(message, file));
  }
  /// As if an earlier manager had run in another PID namespace.
  static void move_elsewhere(const SessionMemory& memory, SlotNumber slot) {
    memory.slot(slot).pid_namespace.fetch_add(1);
    memory.slot(slot).start_time.fetch_add(1);
  }
  /// As if its process had been unable to lock the slot.
  static void unlock(const SessionMemory& memory, SlotNumber slot) {
    memory.slot(slot).status.store(SlotStatus::unlocked);
  }
  std::optional<Reply> find(const Joined& joined, ArenaNumber number) const {
    Message message = message_for(MessageKind::find_arena, id_);
    message.arena = number;
    return joined.client->ask(message);
  }
  [[nodiscard]] std::unique_ptr<Segment> make_arena(const Joined& owner, ArenaNumber number,
                                                    Strategy strategy) const {
    auto segment = Segment::create(id_, number, owner.slot, owner.incarnation, strategy, kSmall);
    segment->record(0).word.store(BlockWord::live_at(0).bits());
    segment->holders(plane_of(owner.slot), 0).fetch_or(bit_of(owner.slot));
    return segment;
  }
};

}  // namespace shmtensor::testing
