// Producers and consumers of a queue, which are killed, while the manager sweeps.
#include <set>

#include "channel/queue.hpp"
#include "simulation/programs/channel_world.hpp"

namespace shmtensor::simulation {
namespace {

/// Numbers are put and taken. Each is received at most once, and lost only with a process that was
/// killed after it took the number; no process sleeps beside one.
class QueueProgram : public ChannelWorld<Queue> {
 public:
  struct Roles {
    std::uint32_t producers = 1;
    std::uint32_t consumers = 1;
    std::uint32_t messages = 2;  ///< of each producer
    std::uint64_t limit = 0;
    bool blocks = false;      ///< each message has a block of its own
    bool stops = false;       ///< another process shuts the queue down
    bool redelivers = false;  ///< a number is received again if its consumer was killed
    std::uint32_t takes = 0;  ///< of each consumer, which run first then; 0: all that come
  };

  explicit QueueProgram(const Roles& roles) : roles_(roles) {}

  void build() override {
    const std::uint32_t users = roles_.producers + roles_.consumers;
    build_channel(
        users + (roles_.stops ? 1u : 0u), Queue::bytes(roles_.redelivers),
        [this](const Block& block) { Queue::create(block, roles_.limit, roles_.redelivers); });
    // Each entry names the ticket of an earlier message.
    for (std::uint32_t i = 0; roles_.blocks && i < QueueHeader::kFirstRing; ++i) {
      static_cast<void>(put(0, i, true));
      Incoming message;
      ChannelCall call(session(0));
      static_cast<void>(
          attempt(channel(0), call, [&] { return channel(0).try_take(message, call); }));
      if (roles_.redelivers) channel(0).complete_all();
    }
    produced_.resize(roles_.producers);
    name_words();
  }

  void start(Run& run) override {
    run_ = &run;
    const std::uint32_t users = roles_.producers + roles_.consumers;
    for (std::uint32_t i = 0; i < processes_.size(); ++i) {
      const bool produces = i < roles_.producers;
      const std::string role = produces ? "producer " : i < users ? "consumer " : "stopper ";
      run.add_process(role + std::to_string(i), true);
    }
    if (roles_.takes == 0) start_producers(run);
    for (std::uint32_t i = roles_.producers; i < users; ++i) {
      run.add_thread(i, [this, i] { consume(i); });
    }
    if (roles_.takes != 0) start_producers(run);
    if (roles_.stops) run.add_thread(users, [this, users] { channel(users).shut_down(); });
    manager_.start(run, slots_);
  }

  // The threads that have not ended sleep. A consumer that is dead may have taken one number more
  // than it has noted, unless the queue redelivers.
  void check(Run& run) override {
    std::uint32_t dead = 0;
    bool consumer_lives = false;
    for (std::uint32_t i = roles_.producers; i < roles_.producers + roles_.consumers; ++i) {
      dead += run.is_dead(i) ? 1u : 0u;
      const bool done = roles_.takes != 0 && run.has_ended(i);
      consumer_lives = consumer_lives || (!run.is_dead(i) && !done);
    }
    std::uint64_t put = 0;
    for (const std::uint32_t count : produced_) put += count;
    const std::uint64_t left = channel(0).size();
    if (consumer_lives && left != 0) return run.fail("a consumer left a message");
    if (numbers_received() + left + (roles_.redelivers ? 0 : dead) < put) {
      return run.fail("a message was lost");
    }
    std::uint64_t held = 1;  // the queue's
    for (std::uint32_t i = 0; i < roles_.producers; ++i) {
      if (run.has_ended(i)) continue;
      if (consumer_lives || left == 0) return run.fail("a producer sleeps beside room");
      ++held;  // the message that it waits to put
    }
    // The last process that dies leaves nothing behind.
    const std::uint64_t expected = anyone_lives(run) ? held + left : 0;
    if (roles_.blocks && live_blocks() != expected) return run.fail("a block is left");
  }

 private:
  struct Received {
    std::uint64_t number;
    std::uint32_t process;
  };

  void start_producers(Run& run) {
    for (std::uint32_t i = 0; i < roles_.producers; ++i) {
      run.add_thread(i, [this, i] { produce(i); });
    }
  }

  [[nodiscard]] std::size_t numbers_received() const {
    std::set<std::uint64_t> numbers;
    for (const Received& received : received_) numbers.insert(received.number);
    return numbers.size();
  }

  void produce(std::uint32_t process) {
    for (std::uint32_t i = 0; i < roles_.messages; ++i) {
      const std::uint64_t number = std::uint64_t{process} << 32 | i;
      if (put(process, number, roles_.blocks) != Attempt::done) return;
      ++produced_[process];
    }
  }

  void consume(std::uint32_t process) {
    for (std::uint32_t i = 0; roles_.takes == 0 || i < roles_.takes; ++i) {
      const auto number = take(channel(process));
      if (!number) return;
      for (const Received& before : received_) {
        const bool is_lost = roles_.redelivers && run_->is_dead(before.process);
        run_->expect(before.number != *number || is_lost, "a message was received twice");
      }
      received_.push_back({*number, process});
      if (roles_.redelivers) channel(process).complete_all();
    }
  }

  void name_words() {
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    Places& places = Places::get();
    auto& queue = header<QueueHeader>();
    name_words_of(queue);
    places.name(&queue.head.lock, "head lock");
    places.name(&queue.head.count, "head count");
    for (std::uint32_t i = 0; i < 4; ++i) {
      places.name(&queue.first_ring[i].ticket.name, "ticket of entry " + std::to_string(i));
    }
  }

  const Roles roles_;
  std::vector<std::uint32_t> produced_;
  std::vector<Received> received_;
};

struct Pair final : QueueProgram {
  Pair() : QueueProgram({.blocks = true}) {}
};
const Register<Pair> pair("queue/pair");

struct TwoProducers final : QueueProgram {
  TwoProducers() : QueueProgram({.producers = 2, .blocks = true}) {}
};
const Register<TwoProducers> two_producers("queue/two producers");

struct TwoConsumers final : QueueProgram {
  TwoConsumers() : QueueProgram({.consumers = 2, .blocks = true}) {}
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

struct OneForEach final : QueueProgram {
  OneForEach() : QueueProgram({.consumers = 2, .takes = 1}) {}
};
const Register<OneForEach> one_for_each("queue/one for each");

struct Redelivery final : QueueProgram {
  Redelivery() : QueueProgram({.consumers = 2, .blocks = true, .redelivers = true}) {}
};
const Register<Redelivery> redelivery("queue/redelivery");

struct Shutdown final : QueueProgram {
  Shutdown() : QueueProgram({.stops = true}) {}
};
const Register<Shutdown> shutdown("queue/shutdown");

}  // namespace
}  // namespace shmtensor::simulation
