// Producers and consumers of a queue, which are killed, while the manager sweeps.
#include <poll.h>

#include <algorithm>
#include <set>

#include "channel/queue.hpp"
#include "simulation/programs/channel_world.hpp"

namespace shmtensor::simulation {
namespace {

/// Numbers are put and taken. Each is received at most once, and lost only with a process that was
/// killed after it took the number; if the queue redelivers, only with one that had completed it.
/// No process sleeps beside one.
class QueueProgram : public ChannelWorld<Queue> {
 public:
  struct Roles {
    std::uint32_t producers = 1;
    std::uint32_t consumers = 1;
    std::uint32_t threads = 1;   ///< of each consumer
    std::uint32_t messages = 2;  ///< of each producer
    std::uint64_t limit = 0;
    std::uint64_t max_bytes = 0;
    bool blocks = false;      ///< each message has a block of its own
    bool stops = false;       ///< another process shuts the queue down
    bool redelivers = false;  ///< a number is received again if its consumer was killed
    std::uint32_t takes = 0;  ///< of each consumer, which run first then; 0: all that come
    bool joins = false;       ///< another process waits until all messages are completed
    bool follows = false;     ///< who receives the first one puts another one before completing it
    bool returns = false;     ///< each consumer returns its first message
    bool watches = false;     ///< the first consumer sleeps on the queue's descriptor
    /// Before a run, so many messages are put and taken: by default, each entry of the first ring
    /// names the ticket of an earlier message.
    std::vector<std::uint32_t> rounds = std::vector<std::uint32_t>(QueueHeader::kFirstRing, 1);
    std::uint32_t unread = 0;  ///< then so many are put
    bool large = false;        ///< those have blocks
  };

  explicit QueueProgram(Roles roles)
      : roles_(std::move(roles)), users_(roles_.producers + roles_.consumers) {}

  void build() override {
    build_channel(users_ + (roles_.stops ? 1u : 0u) + (roles_.joins ? 1u : 0u),
                  Queue::bytes(roles_.redelivers), [this](const Block& block) {
                    Queue::create(block, {.limit = roles_.limit,
                                          .max_bytes = roles_.max_bytes,
                                          .redelivers = roles_.redelivers});
                  });
    for (const std::uint32_t round : roles_.rounds) {
      for (std::uint32_t i = 0; i < round; ++i) static_cast<void>(put(0, i, true));
      for (std::uint32_t i = 0; i < round; ++i) pass_one();
    }
    first_ = channel(0).put_count();
    for (std::uint32_t i = 0; i < roles_.unread; ++i) put_one(0, kUnread + i, roles_.large);
    name_words();
  }

  void start(Run& run) override {
    run_ = &run;
    for (std::uint32_t i = 0; i < processes_.size(); ++i) run.add_process(name_of(i), true);
    if (roles_.takes == 0) start_producers(run);
    for (std::uint32_t i = roles_.producers; i < users_; ++i) {
      for (std::uint32_t thread = 0; thread < roles_.threads; ++thread) {
        const bool watches = roles_.watches && i == roles_.producers;
        run.add_thread(i, [=, this] { watches ? watch(i) : consume(i, thread); });
      }
    }
    if (roles_.takes != 0) start_producers(run);
    if (roles_.stops) run.add_thread(users_, [this] { channel(users_).shut_down(); });
    if (roles_.joins) run.add_thread(last(), [this] { join(); });
    manager_.start(run, slots_);
  }

  // The threads that have not ended sleep. One that was killed may have taken one number more than
  // it has noted, unless the queue redelivers.
  void check(Run& run) override {
    std::uint32_t dead = 0;
    bool consumer_lives = false;
    for (std::uint32_t i = roles_.producers; i < users_; ++i) {
      dead += run.is_dead(i) ? roles_.threads : 0;
      const bool done = roles_.takes != 0 && run.has_ended(i);
      consumer_lives = consumer_lives || (!run.is_dead(i) && !done);
    }
    const std::uint64_t left = channel(0).size();
    const std::uint64_t bytes = left * bytes_of_one(roles_.blocks);
    if (!roles_.redelivers && !roles_.large && channel(0).waiting_bytes() != bytes) {
      return run.fail("the bytes of the messages are counted wrong");
    }
    if (consumer_lives && left != 0) return run.fail("a consumer left a message");
    const std::uint64_t known = roles_.redelivers ? completed_.size() : received_.size() + dead;
    if (known + left < put_) return run.fail("a message was lost");
    const bool stopped = roles_.stops && run.has_ended(users_) && !run.is_dead(users_);
    std::uint64_t held = 1;  // the queue's
    for (std::uint32_t i = 0; i < users_; ++i) {
      if (run.has_ended(i)) continue;
      if (stopped) return run.fail("a process sleeps after the shutdown");
      if (i >= roles_.producers) continue;
      if (consumer_lives || !channel(0).is_full()) return run.fail("a producer sleeps beside room");
      held += roles_.blocks ? 1u : 0u;  // the message that it waits to put
    }
    if (roles_.joins && !run.has_ended(last()) && channel(0).all_done()) {
      return run.fail("join sleeps although all messages are completed");
    }
    // The last process that dies leaves nothing behind.
    if (roles_.blocks) held += left;
    const std::uint64_t taken = raw(header<QueueHeader>().head.count) - first_;
    if (roles_.large) held += roles_.unread - std::min<std::uint64_t>(roles_.unread, taken);
    const std::uint64_t expected = anyone_lives(run) ? held + rings() : 0;
    if (live_blocks() != expected) return run.fail("a block is left");
  }

 private:
  static constexpr std::uint64_t kUnread = std::uint64_t{0x100} << 32;
  static constexpr std::uint64_t kFollowing = std::uint64_t{0x200} << 32;

  struct Received {
    std::uint64_t number;
    std::uint32_t process;
    std::uint32_t thread;
  };

  [[nodiscard]] std::uint32_t last() const {
    return static_cast<std::uint32_t>(processes_.size() - 1);
  }
  [[nodiscard]] std::string name_of(std::uint32_t process) const {
    if (process < roles_.producers) return "producer " + std::to_string(process);
    if (process < users_) return "consumer " + std::to_string(process);
    return process == users_ && roles_.stops ? "stopper" : "joiner";
  }
  void start_producers(Run& run) {
    for (std::uint32_t i = 0; i < roles_.producers; ++i) {
      run.add_thread(i, [this, i] { produce(i); });
    }
  }

  bool put_one(std::uint32_t process, std::uint64_t number, bool large = false) {
    const bool done = put(process, number, roles_.blocks || large) == Attempt::done;
    put_ += done ? 1u : 0u;
    return done;
  }
  void produce(std::uint32_t process) {
    for (std::uint32_t i = 0; i < roles_.messages; ++i) {
      if (!put_one(process, std::uint64_t{process} << 32 | i)) return;
    }
  }

  void consume(std::uint32_t process, std::uint32_t thread) {
    for (std::uint32_t i = 0; roles_.takes == 0 || i < roles_.takes; ++i) {
      std::uint64_t number = 0;
      if (receive(process, thread, number) != Attempt::done) return;
      if (!roles_.redelivers) continue;
      if (roles_.returns && have_returned_.insert(process).second) {
        received_.pop_back();
        channel(process).return_all();
        continue;
      }
      if (roles_.follows && number == 0) put_one(process, kFollowing + following_++);
      completed_.insert(number);  // from here on, a kill may lose it
      channel(process).complete_all();
    }
  }
  void watch(std::uint32_t process) {
    const int descriptor = channel(process).watch(QueueEvent::message);
    bool in_vain = false;
    for (Attempt result = Attempt::empty; result != Attempt::shut_down;) {
      run_->wait_until([&] { return is_ready(descriptor, in_vain); });
      run_->expect(!in_vain, "a process is woken although there is no message");
      std::uint64_t number = 0;
      result = receive(process, 0, number, false);
    }
  }
  /// Takes a message, and settles, as the product does after each attempt.
  Attempt receive(std::uint32_t process, std::uint32_t thread, std::uint64_t& number,
                  bool waits = true) {
    Queue& queue = channel(process);
    const Attempt result = take(queue, number, waits);
    if (queue.must_settle(QueueEvent::message)) queue.settle(QueueEvent::message);
    if (result != Attempt::done) return result;
    ++settled_;
    note({number, process, thread});
    return result;
  }
  /// `in_vain`: the descriptor is readable without a message, and nothing will change that.
  bool is_ready(int descriptor, bool& in_vain) {
    struct pollfd wanted{descriptor, POLLIN, 0};
    if (::poll(&wanted, 1, 0) <= 0) return false;
    const auto& queue = header<QueueHeader>();
    const std::uint64_t taken = raw(queue.head.count) - first_;
    in_vain = taken == settled_ && raw(queue.tail.count) == raw(queue.head.count) &&
              raw(queue.stage) == QueueStage::open && !run_->is_disturbed();
    return true;
  }
  void note(const Received& one) {
    for (const Received& before : received_) {
      const bool again = roles_.redelivers && run_->is_dead(before.process);
      run_->expect(before.number != one.number || again, "a message was received twice");
      const bool in_order = before.process == one.process && before.thread == one.thread &&
                            before.number >> 32 == one.number >> 32;
      run_->expect(roles_.redelivers || !in_order || before.number < one.number,
                   "a message was received before an earlier one");
    }
    received_.push_back(one);
  }

  void join() {
    Queue& queue = channel(last());
    while (!queue.all_done()) queue.wait_until_done(std::chrono::hours(1));
    run_->expect(first_ + completed_.size() >= raw(header<QueueHeader>().tail.count),
                 "join ended although a message is not completed");
  }

  /// The rings in use that have a block of their own.
  [[nodiscard]] std::uint64_t rings() {
    auto& queue = header<QueueHeader>();
    std::uint64_t count = 0;
    for (std::uint32_t i = queue.head.ring.load(); i != queue.tail.ring.load() + 1; ++i) {
      const auto named = queue.ring(i).ticket.read();
      const bool is_live = named && manager_.memory().transit(named->ticket.sender).is_live(*named);
      count += is_live ? 1u : 0u;  // not of one that was retired in part
    }
    return count;
  }
  void pass_one() {
    Incoming message;
    static_cast<void>(take(channel(0), message));
    if (roles_.redelivers) channel(0).complete_all();
  }

  void name_words() {
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    Places& places = Places::get();
    auto& queue = header<QueueHeader>();
    name_words_of(queue);
    places.name(&queue.head.lock, "head lock");
    places.name(&queue.head.count, "head count");
    places.name(&queue.head.ring, "head ring");
    places.name(&queue.tail.ring, "tail ring");
    for (std::uint32_t i = 0; i < QueueHeader::kFirstRing; ++i) {
      places.name(&queue.first_ring[i].ticket.name, "ticket of entry " + std::to_string(i));
    }
    const KeptMessages kept = KeptMessages::in(
        processes_[0]->block->arena->bytes(processes_[0]->block->number, Access::read_write));
    for (std::uint32_t i = 0; roles_.redelivers && i < 3; ++i) {
      places.name(&kept.record(i).owner, "owner of record " + std::to_string(i));
    }
  }

  const Roles roles_;
  const std::uint32_t users_;
  std::uint64_t first_ = 0;  // messages before those that count
  std::uint64_t put_ = 0;
  std::vector<Received> received_;
  std::set<std::uint64_t> completed_;
  std::set<std::uint32_t> have_returned_;
  std::uint32_t following_ = 0;
  std::uint64_t settled_ = 0;  // messages after which a consumer has settled
};

const Register<QueueProgram> queue_programs[] = {
    {"queue/pair", {.blocks = true}},
    {"queue/two producers", {.producers = 2, .blocks = true}},
    // While one has the lock, two wait for it.
    {"queue/three producers", {.producers = 3}},
    {"queue/two consumers", {.consumers = 2, .blocks = true}},
    {"queue/two threads", {.threads = 2, .blocks = true}},
    {"queue/room for one", {.messages = 3, .limit = 1}},
    {"queue/rivals for room", {.producers = 2, .limit = 1}},
    {"queue/bytes/room for one", {.messages = 3, .max_bytes = 8}},
    {"queue/bytes/with blocks", {.producers = 2, .max_bytes = 72, .blocks = true}},
    // The large message makes room for both small ones, which no process takes.
    {"queue/bytes/room for two",
     {.producers = 2, .messages = 1, .max_bytes = 16, .takes = 1, .unread = 1, .large = true}},
    {"queue/one for each", {.consumers = 2, .takes = 1}},
    {"queue/shutdown", {.stops = true}},
    // The first ring is full.
    {"queue/rings/next", {.unread = 3}},
    {"queue/rings/two of each", {.producers = 2, .consumers = 2, .blocks = true, .unread = 3}},
    // The second ring is empty, and the next message belongs into its first entry: so the first one
    // is used again.
    {"queue/rings/first again", {.blocks = true, .rounds = {4, 3}}},
    {"queue/watch/two producers", {.producers = 2, .messages = 1, .watches = true}},
    {"queue/watch/another consumer", {.consumers = 2, .watches = true}},
    {"queue/watch/shutdown", {.messages = 1, .stops = true, .watches = true}},
    {"queue/redelivery/two consumers", {.consumers = 2, .blocks = true, .redelivers = true}},
    {"queue/redelivery/without blocks", {.consumers = 2, .redelivers = true}},
    {"queue/redelivery/shutdown",
     {.consumers = 2, .messages = 1, .stops = true, .redelivers = true}},
    // An entry that is taken is that of the next message but one.
    {"queue/redelivery/full ring",
     {.consumers = 2, .blocks = true, .redelivers = true, .takes = 1, .unread = 3}},
    {"queue/redelivery/returned",
     {.consumers = 2, .messages = 1, .redelivers = true, .returns = true}},
    {"queue/redelivery/join",
     {.consumers = 2, .messages = 1, .redelivers = true, .joins = true, .follows = true}},
};

}  // namespace
}  // namespace shmtensor::simulation
