// Writers and readers of a broadcast, which are killed, while the manager sweeps.
#include <array>

#include "channel/broadcast.hpp"
#include "simulation/programs/channel_world.hpp"

namespace shmtensor::simulation {
namespace {

/// Each reader takes all messages from its joining on, in order, or the newest that are left.
class BroadcastProgram : public ChannelWorld<Broadcast> {
 public:
  struct Roles {
    std::uint32_t writers = 1;
    std::uint32_t readers = 1;
    std::uint32_t messages = 2;  ///< of each writer
    std::uint64_t limit = 2;
    std::uint64_t max_bytes = 0;
    OnFull on_full = OnFull::block;
    std::uint32_t reads = 0;  ///< messages after which a reader leaves; 0: it stays
    bool idles = false;       ///< the last reader takes one message and stays
    bool skips = false;       ///< the last reader takes the newest messages only
    bool stops = false;       ///< another process shuts the broadcast down; there is one reader
  };

  explicit BroadcastProgram(const Roles& roles)
      : roles_(roles), users_(roles.writers + roles.readers) {}

  void build() override {
    build_channel(users_ + (roles_.stops ? 1u : 0u), BroadcastHeader::bytes(roles_.limit),
                  [this](const Block& block) {
                    Broadcast::create(block, {.limit = roles_.limit,
                                              .max_bytes = roles_.max_bytes,
                                              .on_full = roles_.on_full});
                  });
    readers_.resize(roles_.readers);
    name_words();
  }

  void start(Run& run) override {
    run_ = &run;
    // The readers run first, so that a message usually has one.
    for (std::uint32_t i = 0; i < users_; ++i) {
      const bool writes = i >= roles_.readers;
      run.add_thread(run.add_process((writes ? "writer " : "reader ") + std::to_string(i), true),
                     [=, this] { writes ? write(i) : read(i); });
    }
    if (roles_.stops) {
      run.add_thread(run.add_process("stopper", true), [this] { channel(users_).shut_down(); });
    }
    manager_.start(run, slots_);
  }

  void check(Run& run) override {
    const bool stopped = roles_.stops && run.has_ended(users_) && !run.is_dead(users_);
    for (std::uint32_t i = 0; i < roles_.readers; ++i) {
      if (run.has_ended(i)) continue;
      const bool idles = roles_.idles && i + 1 == roles_.readers;
      if (!idles && readers_[i]->lag() != 0) return run.fail("a reader sleeps beside a message");
      if (stopped) return run.fail("a reader sleeps after the shutdown");
    }
    for (std::uint32_t i = roles_.readers; i < users_; ++i) {
      const bool has_room = !roles_.idles || channel(i).lag() == 0;
      if (!run.has_ended(i) && has_room) return run.fail("a writer sleeps beside room");
    }
    const std::uint64_t lag = channel(0).lag();
    if (channel(0).waiting_bytes() != lag * bytes_of_one(true)) {
      return run.fail("the bytes of the messages are counted wrong");
    }
    const bool reached_end = stopped && !run.is_dead(0);
    if (reached_end && read_ != header<BroadcastHeader>().tail.count.load()) {
      return run.fail("a reader ended before a message");
    }
    // The broadcast's block is left, with what has still to be read, or put.
    const std::uint32_t last = roles_.readers - 1;
    const bool keeps = lag == 0 && !run.has_ended(last) && readers_[last]->lag() != 0;
    std::uint64_t held = 1 + lag + (keeps ? 1u : 0u);
    for (std::uint32_t i = roles_.readers; i < users_; ++i) held += run.has_ended(i) ? 0u : 1u;
    if (live_blocks() != (anyone_lives(run) ? held : 0)) return run.fail("a block is left");
  }

 private:
  void write(std::uint32_t process) {
    for (std::uint32_t i = 0; i < roles_.messages; ++i) {
      static_cast<void>(put(process, std::uint64_t{process} << 32 | i, true));
    }
  }

  void read(std::uint32_t process) {
    BroadcastReader reader(channel(process));
    readers_[process] = &reader;
    const bool skips = roles_.skips && process + 1 == roles_.readers;
    if (skips) reader.skip_to_newest();
    read_ = raw(header<BroadcastHeader>().readers[process].next);
    std::array<std::uint64_t, 8> last{};
    for (std::uint32_t i = 0; roles_.reads == 0 || i < roles_.reads; ++i) {
      const bool idles = roles_.idles && process + 1 == roles_.readers;
      if (idles && i == 1) run_->wait_until([] { return false; });
      std::uint64_t number = 0;
      if (take(reader, number) != Attempt::done) return;
      std::uint64_t& before = last[number >> 32];
      const std::uint64_t count = (number & 0xffffffff) + 1;
      const bool all = roles_.on_full == OnFull::block && before != 0 && !skips;
      const bool next = all ? count == before + 1 : count > before;
      run_->expect(next, "a reader misses a message, or reads it twice");
      ++read_;
      before = count;
    }
  }

  void name_words() {
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    Places& places = Places::get();
    auto& broadcast = header<BroadcastHeader>();
    name_words_of(broadcast);
    for (std::uint32_t i = 0; i < roles_.readers; ++i) {
      const std::string of = " of reader " + std::to_string(i);
      places.name(&broadcast.readers[i].owner, "owner" + of);
      places.name(&broadcast.readers[i].next, "position" + of);
    }
  }

  const Roles roles_;
  const std::uint32_t users_;
  std::vector<BroadcastReader*> readers_;
  std::uint64_t read_ = 0;  // messages up to here, if there is one reader
};

const Register<BroadcastProgram> broadcast_programs[] = {
    {"broadcast/pair", {}},
    {"broadcast/two readers", {.readers = 2}},
    {"broadcast/two writers", {.writers = 2}},
    {"broadcast/leaving reader", {.messages = 3, .limit = 1, .reads = 1}},
    {"broadcast/oldest dropped", {.messages = 3, .limit = 1, .on_full = OnFull::drop_oldest}},
    {"broadcast/bytes/pair", {.messages = 3, .max_bytes = 72}},
    {"broadcast/bytes/idle reader", {.writers = 2, .limit = 3, .max_bytes = 73, .idles = true}},
    {"broadcast/bytes/oldest dropped",
     {.readers = 2, .messages = 3, .max_bytes = 73, .on_full = OnFull::drop_oldest, .idles = true}},
    {"broadcast/bytes/oldest of two",
     {.messages = 4, .on_full = OnFull::drop_oldest, .idles = true}},
    {"broadcast/skips/alone", {.messages = 3, .limit = 1, .skips = true}},
    {"broadcast/skips/idle", {.messages = 3, .limit = 1, .idles = true, .skips = true}},
    {"broadcast/skips/beside another", {.readers = 2, .messages = 3, .skips = true}},
    {"broadcast/skips/two writers", {.writers = 2, .limit = 1, .skips = true}},
    {"broadcast/shutdown", {.stops = true}},
};

}  // namespace
}  // namespace shmtensor::simulation
