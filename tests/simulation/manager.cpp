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

void Manager::prepare(const Segment& segment) {
  auto next = Segment::open(memory_->id(), segment.number(), (*segment.file()).duplicate());
  static_cast<void>(next->data(Access::read_write, 0, 1));
  static_cast<void>(arenas_.find(segment.number())->data(Access::read_write, 0, 1));
  of_next_.push_back(std::move(next));
  segment.header().capacity.store(64);
}

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
    case MessageKind::watch_queue: {
      const WatchedQueue queue = queue_of(request);
      Atomic<std::uint32_t>& number = arenas_.queue(queue.arena, queue.block)->pipe(queue.event);
      reply.fd = queues_.add(queue, Fd(::dup(descriptor)), number)->pipe.descriptor().duplicate();
      break;
    }
    case MessageKind::find_ready_pipe:
      if (const auto* const watched = queues_.find(queue_of(request))) {
        reply.fd = watched->pipe.descriptor().duplicate();
      } else {
        reply.message.kind = MessageKind::unknown;
      }
      break;
    default:
      reply.message.kind = MessageKind::unknown;
  }
  return reply;
}

void Manager::carry_out(const Message& notice) {
  const WatchedQueue about = queue_of(notice);
  if (notice.kind == MessageKind::drain) {
    arenas_.drain(*memory_, about.arena, about.block);
  } else if (notice.kind == MessageKind::wake_watchers) {
    queues_.raise(about);
  }
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
  const ProcessNumber first = run.add_process("manager", true);
  run.add_thread(first, [this, &run] { serve(run); });
  run.add_thread(run.add_process("manager 2", false), [this, &run, first] {
    run.wait_until([&run, first] { return run.is_dead(first); });
    take_over(run);
    serve(run);
  });
}

void Manager::serve(Run& run) {
  for (;;) {
    raise_hung_up();
    run.wait_until([&] { return run.has_death() || !notices_.empty() || !requests_.empty(); });
    if (run.has_death()) {
      reclaim(run.next_death());
    } else if (!notices_.empty()) {
      const Message notice = notices_.front();
      notices_.pop_front();
      carry_out(notice);
    } else {
      Request& request = *requests_.front();
      request.reply = carry_out(request.message, request.descriptor);
      requests_.pop_front();  // now: if this one is killed before, the next one carries it out
    }
  }
}

// As QueueRequests::raise_hung_up.
void Manager::raise_hung_up() {
  for (const auto& [arena, block] : arenas_.take_hung_up()) {
    for (const QueueEvent event : {QueueEvent::message, QueueEvent::room}) {
      queues_.raise({.arena = arena, .block = block, .event = event});
    }
  }
}

// As ServedSession::adopt. What was sent to the manager that was killed is lost.
void Manager::take_over(Run& run) {
  notices_.clear();
  arenas_ = ArenaRegistry();
  queues_ = WatchedQueues();  // closes the sockets, which those that watch notice
  SlotSet used;
  for (const SlotNumber slot : slots_) {
    if (memory_->slot(slot).status.load() != SlotStatus::unused) used.add(slot);
  }
  SlotSet unused;
  for (SlotNumber slot = 0; slot < kMaxSlots; ++slot) {
    if (!used.has(slot)) unused.add(slot);
  }
  std::vector<ArenaRegistry::Found> found;
  for (auto& segment : of_next_) {
    const auto owner = static_cast<SlotNumber>(segment->header().owner);
    found.push_back({std::move(segment), used.has(owner)});
  }
  arenas_.add(std::move(found), *memory_, unused);
  memory_->header().deaths.fetch_add(1);
  arenas_.notify_owners();
  for (ProcessNumber process = 0; process < slots_.size(); ++process) {
    if (run.ask_if_dead(process)) reclaim(process);
  }
}

// As Deaths::sweep. The next manager may have done so when it took over.
void Manager::reclaim(ProcessNumber dead) {
  if (dead >= slots_.size()) return;  // a manager
  const SlotNumber slot = slots_[dead];
  if (memory_->slot(slot).status.load() == SlotStatus::unused) return;
  arenas_.sweep(*memory_, SlotSet(slot),
                [this](const WatchedQueue& queue) { queues_.raise(queue); });
  memory_->slot(slot).status.store(SlotStatus::unused);
  memory_->header().deaths.fetch_add(1);
  arenas_.notify_owners();
}

}  // namespace shmtensor::simulation
