// Producers and consumers of a queue, which are killed, while the manager sweeps.
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "channel/channel_call.hpp"
#include "channel/queue.hpp"
#include "session/held_block.hpp"
#include "simulation/manager.hpp"
#include "simulation/places.hpp"
#include "simulation/program.hpp"
#include "simulation/snapshot.hpp"
#include "support/world.hpp"

namespace shmtensor::simulation {
namespace {

using std::chrono::hours;

/// A process with a session and one queue.
struct QueueProcess {
  Budget budget;
  std::unique_ptr<Session> session =
      Session::connect({0x51, 0x3d}, Session::Start::never, {}, budget);
  HeldBlock block;
  std::optional<Queue> queue;
};

/// Numbers are put and taken. Each is received at most once, in order, and lost only with a process
/// that was killed after it took the number; no process sleeps beside one.
class QueueProgram : public Program {
 public:
  struct Roles {
    std::uint32_t producers = 1;
    std::uint32_t consumers = 1;
    std::uint32_t messages = 2;  ///< of each producer
    std::uint64_t limit = 0;
    bool blocks = false;  ///< each message has a block of its own
  };

  explicit QueueProgram(const Roles& roles) : roles_(roles) {}

  void build() override {
    const std::uint32_t processes = roles_.producers + roles_.consumers;
    for (std::uint32_t i = 0; i < processes; ++i) {
      processes_.push_back(std::make_unique<QueueProcess>());
      slots_.push_back(processes_.back()->session->slot());
    }
    HeldBlock made(session(0).allocate(Queue::bytes(false), Strategy::file_descriptor));
    Queue::create(*made, roles_.limit);
    for (std::uint32_t i = 0; i < processes; ++i) warm_up(i);
    for (std::uint32_t i = 0; i < processes; ++i) open_queue(i, *made);
    made.reset();
    for (std::uint32_t i = 0; roles_.blocks && i < QueueHeader::kFirstRing; ++i) use_entry();
    produced_.resize(roles_.producers);
    used_ = header().tail.count.load();
    name_words();
  }

  void start(Run& run) override {
    run_ = &run;
    for (std::uint32_t i = 0; i < processes_.size(); ++i) {
      const bool produces = i < roles_.producers;
      const std::string name = produces ? "producer " + std::to_string(i)
                                        : "consumer " + std::to_string(i - roles_.producers);
      run.add_thread(run.add_process(name, true),
                     [this, i, produces] { produces ? produce(i) : consume(i); });
    }
    manager_.start(run, slots_);
  }

  // The threads that have not ended sleep. A consumer that is dead may have taken one number more
  // than it has noted.
  void check(Run& run) override {
    const QueueHeader& header = this->header();
    std::uint32_t dead = 0;
    bool consumer_lives = false;
    for (std::uint32_t i = roles_.producers; i < processes_.size(); ++i) {
      dead += run.is_dead(i) ? 1u : 0u;
      consumer_lives = consumer_lives || !run.is_dead(i);
    }
    std::uint64_t put = 0;
    for (const std::uint32_t count : produced_) put += count;
    const std::uint64_t left = header.waiting();
    if (consumer_lives && left != 0) return run.fail("a consumer sleeps beside a message");
    if (received_.size() + left + used_ > header.tail.count.load()) {
      return run.fail("more messages were received than put");
    }
    if (received_.size() + left + dead < put) return run.fail("a message was lost");
    std::uint64_t held = 1;  // the queue's
    for (std::uint32_t i = 0; i < roles_.producers; ++i) {
      if (run.is_dead(i) || produced_[i] == roles_.messages) continue;
      if (consumer_lives || left == 0) return run.fail("a producer sleeps beside room");
      ++held;  // the message that it waits to put
    }
    // The last process that dies leaves nothing behind.
    bool anyone_lives = false;
    for (std::uint32_t i = 0; i < processes_.size(); ++i) {
      anyone_lives = anyone_lives || !run.is_dead(i);
    }
    const std::uint64_t expected = anyone_lives ? held + left : 0;
    if (roles_.blocks && live_blocks() != expected) return run.fail("a block is left");
  }

 private:
  [[nodiscard]] Session& session(std::uint32_t process) { return *processes_[process]->session; }
  [[nodiscard]] QueueHeader& header() { return *header_; }

  /// The process has an arena, which all map, and a table of tickets.
  void warm_up(std::uint32_t process) {
    Session& own = session(process);
    const HeldBlock first(own.allocate(64, Strategy::file_descriptor));
    const testing::Sent sent = testing::send(*first->arena, first->number);
    first->arena->cancel_send(first->number, sent.generation, sent.ticket);
    for (const auto& other : processes_) {
      const PinnedArena arena =
          other->session->attach(first->arena->segment().number(), Strategy::file_descriptor);
      static_cast<void>(arena->bytes(first->number, Access::read_write));
      arena->pin();
      for (SlotNumber slot = 0; slot < processes_.size(); ++slot) {
        static_cast<void>(other->session->memory().transit(slot));
      }
    }
    const Segment& segment = first->arena->segment();
    static_cast<void>(manager_.arenas().find(segment.number())->data(Access::read_write, 0, 1));
    static_cast<void>(manager_.memory().transit(static_cast<SlotNumber>(process)));
    Manager::keep_small(segment);
  }

  void open_queue(std::uint32_t process, const Block& made) {
    QueueProcess& user = *processes_[process];
    const ArenaNumber number = made.arena->segment().number();
    const PinnedArena arena = user.session->attach(number, Strategy::file_descriptor);
    const testing::Sent sent = testing::send(*made.arena, made.number);
    if (!testing::receive(*arena, sent)) throw Error("the queue is gone");
    user.block = HeldBlock({arena.get(), made.number});
    user.queue.emplace(*user.session, *user.block);
    if (process == 0) {
      header_ =
          reinterpret_cast<QueueHeader*>(arena->bytes(made.number, Access::read_write).data());
    }
  }

  [[nodiscard]] std::uint64_t live_blocks() {
    std::uint64_t count = 0;
    const Segment* segment = nullptr;
    for (ArenaNumber number = 0; (segment = manager_.arenas().after(number)) != nullptr;) {
      number = segment->number();
      count += testing::live_blocks(*segment);
    }
    return count;
  }

  /// Lets an entry name the ticket of an earlier message.
  void use_entry() {
    Queue& queue = *processes_[0]->queue;
    const HeldBlock block(session(0).allocate(64, Strategy::file_descriptor));
    ChannelCall put(session(0));
    static_cast<void>(attempt(
        queue, put, [&] { return queue.try_put(Outgoing{.content = {}, .block = *block}, put); }));
    ChannelCall take(session(0));
    Incoming message;
    static_cast<void>(attempt(queue, take, [&] { return queue.try_take(message, take); }));
  }

  void name_words() {
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    Places& places = Places::get();
    QueueHeader& header = this->header();
    places.name(&header.tail.lock, "tail lock");
    places.name(&header.tail.count, "tail count");
    places.name(&header.head.lock, "head lock");
    places.name(&header.head.count, "head count");
    places.name(&header.getters, "getters");
    places.name(&header.putters, "putters");
    for (std::uint32_t i = 0; i < 4; ++i) {
      places.name(&header.first_ring[i].ticket.name, "ticket of entry " + std::to_string(i));
    }
  }

  template <typename Try>
  Attempt attempt(Queue& queue, ChannelCall& call, Try&& one) {
    for (;;) {
      const Attempt result = one();
      if (is_final(result)) return result;
      queue.prepare(result, call, hours(1));
    }
  }

  void produce(std::uint32_t process) {
    QueueProcess& user = *processes_[process];
    for (std::uint32_t i = 0; i < roles_.messages; ++i) {
      const std::uint64_t number = std::uint64_t{process} << 32 | i;
      HeldBlock block;
      if (roles_.blocks) {
        block = HeldBlock(user.session->allocate(64, Strategy::file_descriptor));
        std::memcpy(bytes_of(*block), &number, sizeof number);
      }
      ChannelCall call(*user.session);
      const Outgoing message{.kind = roles_.blocks ? 1u : 0u,
                             .content = std::as_bytes(std::span(&number, 1)),
                             .block = block ? *block : Block{}};
      static_cast<void>(
          attempt(*user.queue, call, [&] { return user.queue->try_put(message, call); }));
      ++produced_[process];
    }
  }

  void consume(std::uint32_t process) {
    QueueProcess& user = *processes_[process];
    for (;;) {
      Incoming message;
      ChannelCall call(*user.session);
      static_cast<void>(
          attempt(*user.queue, call, [&] { return user.queue->try_take(message, call); }));
      std::uint64_t number = 0;
      std::memcpy(&number, message.content.data(), sizeof number);
      run_->expect(message.block || !roles_.blocks, "a message lacks its block");
      if (message.block) {
        std::uint64_t inside = 0;
        std::memcpy(&inside, bytes_of(*message.block), sizeof inside);
        run_->expect(inside == number, "a message has another one's block");
      }
      for (const std::uint64_t before : received_) {
        run_->expect(before != number, "a message was received twice");
      }
      received_.push_back(number);
    }
  }

  static std::byte* bytes_of(const Block& block) {
    return block.arena->bytes(block.number, Access::read_write).data();
  }

  const Roles roles_;
  Manager manager_;
  Run* run_ = nullptr;
  QueueHeader* header_ = nullptr;
  std::vector<std::unique_ptr<QueueProcess>> processes_;
  std::vector<SlotNumber> slots_;
  std::uint64_t used_ = 0;  // messages before the run
  std::vector<std::uint32_t> produced_;
  std::vector<std::uint64_t> received_;
};

struct Pair final : QueueProgram {
  Pair() : QueueProgram({.blocks = true}) {}
};
const Register<Pair> pair("queue/pair");

struct TwoProducers final : QueueProgram {
  TwoProducers() : QueueProgram({.producers = 2}) {}
};
const Register<TwoProducers> two_producers("queue/two producers");

struct TwoConsumers final : QueueProgram {
  TwoConsumers() : QueueProgram({.consumers = 2}) {}
};
const Register<TwoConsumers> two_consumers("queue/two consumers");

struct RoomForOne final : QueueProgram {
  RoomForOne() : QueueProgram({.messages = 3, .limit = 1}) {}
};
const Register<RoomForOne> room_for_one("queue/room for one");

struct RivalsForRoom final : QueueProgram {
  RivalsForRoom() : QueueProgram({.producers = 2, .limit = 1}) {}
};
const Register<RivalsForRoom> rivals_for_room("queue/rivals for room");

}  // namespace
}  // namespace shmtensor::simulation
