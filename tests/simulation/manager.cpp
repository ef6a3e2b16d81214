#include "simulation/manager.hpp"

#include <unistd.h>

#include <utility>

namespace shmtensor::simulation {

Manager* Manager::manager_ = nullptr;

Manager::Manager() : memory_(SessionMemory::create({0x51, 0x3d})) {
  manager_ = this;
  SessionHeader& header = memory_->header();
  header.manager.store(1);
  header.manager_starts.store(1);
  header.small_tables.store(1);
  memory_->record_manager();
}

Manager::~Manager() { manager_ = nullptr; }

Fd Manager::connect() { return memory_->file().duplicate(); }

Reply Manager::carry_out(const Message& request, int descriptor) {
  Reply reply;
  reply.message = request;
  reply.message.kind = MessageKind::done;
  switch (request.kind) {
    case MessageKind::hello: {
      const SlotNumber slot = next_slot_++;
      SlotRecord& record = memory_->slot(slot);
      record.status.store(SlotStatus::joining);
      record.incarnation.store(1);
      reply.message.kind = MessageKind::welcome;
      reply.message.slot = slot;
      reply.message.incarnation = 1;
      reply.fd = memory_->file().duplicate();
      break;
    }
    case MessageKind::register_arena:
      arenas_.add(Segment::open(memory_->id(), request.arena, Fd(::dup(descriptor))), true,
                  *memory_, {});
      break;
    case MessageKind::find_arena:
      if (const Segment* const segment = arenas_.find(request.arena)) {
        reply.fd = (*segment->file()).duplicate();
      } else {
        reply.message.kind = MessageKind::unknown;
      }
      break;
    default:
      reply.message.kind = MessageKind::unknown;
  }
  return reply;
}

Reply Manager::answer(const Message& request, int descriptor) {
  Run* const run = Run::running();
  if (run == nullptr) return carry_out(request, descriptor);
  Request mine{request, descriptor, std::nullopt};
  requests_.push_back(&mine);
  run->wait_until([&mine] { return mine.reply.has_value(); });
  return std::move(*mine.reply);
}

void Manager::start(Run& run, std::span<const SlotNumber> slots) {
  slots_ = slots;
  run.add_thread(run.add_process("manager", false), [this, &run] { serve(run); });
}

void Manager::serve(Run& run) {
  for (;;) {
    run.wait_until([&] { return run.has_death() || !notices_.empty() || !requests_.empty(); });
    if (run.has_death()) {
      reclaim(run.next_death());
    } else if (!notices_.empty()) {
      const Message notice = notices_.front();
      notices_.pop_front();
      if (notice.kind == MessageKind::drain) {
        arenas_.drain(*memory_, notice.arena, static_cast<BlockNumber>(notice.number));
      }
    } else {
      Request& request = *requests_.front();
      requests_.pop_front();
      request.reply = carry_out(request.message, request.descriptor);
    }
  }
}

// As Deaths::sweep.
void Manager::reclaim(ProcessNumber dead) {
  const SlotNumber slot = slots_[dead];
  arenas_.sweep(*memory_, SlotSet(slot));
  memory_->slot(slot).status.store(SlotStatus::unused);
  memory_->header().deaths.fetch_add(1);
  arenas_.notify_owners();
}

}  // namespace shmtensor::simulation
