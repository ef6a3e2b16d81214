// Writers that set a value, and readers that get the newest one, are killed, while the manager
// sweeps.
#include <array>

#include "channel/broadcast.hpp"
#include "channel/newest_message.hpp"
#include "simulation/programs/channel_world.hpp"

namespace shmtensor::simulation {
namespace {

/// Each reader gets the newest value, and waits for a newer one.
class LatestProgram : public ChannelWorld<Broadcast> {
 public:
  struct Roles {
    std::uint32_t writers = 1;
    std::uint32_t readers = 1;
    std::uint32_t values = 2;  ///< of each writer
  };

  explicit LatestProgram(const Roles& roles)
      : roles_(roles), users_(roles.writers + roles.readers) {}

  void build() override {
    build_channel(users_, BroadcastHeader::bytes(1), [](const Block& block) {
      Broadcast::create(block, {.limit = 1, .on_full = OnFull::keep_newest});
    });
    seen_.resize(roles_.readers);
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    name_words_of(header<BroadcastHeader>());
  }

  void start(Run& run) override {
    run_ = &run;
    for (std::uint32_t i = 0; i < users_; ++i) {
      const bool writes = i >= roles_.readers;
      run.add_thread(run.add_process((writes ? "writer " : "reader ") + std::to_string(i), true),
                     [=, this] { writes ? write(i) : read(i); });
    }
    manager_.start(run, slots_);
  }

  void check(Run& run) override {
    const std::uint64_t count = channel(0).count();
    for (std::uint32_t i = 0; i < users_; ++i) {
      if (run.has_ended(i)) continue;
      if (i >= roles_.readers) return run.fail("a writer waits");
      if (seen_[i] != count) return run.fail("a reader sleeps beside a value");
    }
    // The broadcast's block is left, and the value's.
    const std::uint64_t left = 1u + (count != 0 ? 1u : 0u);
    if (live_blocks() != (anyone_lives(run) ? left : 0)) return run.fail("a block is left");
  }

 private:
  void write(std::uint32_t process) {
    for (std::uint32_t i = 0; i < roles_.values; ++i) {
      const Attempt result = put(process, std::uint64_t{process} << 32 | i, true);
      run_->expect(result == Attempt::done, "a value is not set");
    }
  }

  void read(std::uint32_t process) {
    std::array<std::uint64_t, 8> last{};
    std::uint64_t& seen = seen_[process];
    while (seen < std::uint64_t{roles_.writers} * roles_.values) {
      NewestMessage newest(channel(process), seen);
      std::uint64_t number = 0;
      static_cast<void>(take(newest, number));
      run_->expect(newest.count() > seen, "a reader gets a value that it has");
      seen = newest.count();
      std::uint64_t& before = last[number >> 32];
      const std::uint64_t own = (number & 0xffffffff) + 1;
      run_->expect(own > before, "a reader gets an older value");
      before = own;
    }
  }

  const Roles roles_;
  const std::uint32_t users_;
  std::vector<std::uint64_t> seen_;  // values, by each reader
};

const Register<LatestProgram> latest_programs[] = {
    {"latest/pair", {}},
    {"latest/three values", {.values = 3}},
    {"latest/two readers", {.readers = 2}},
    {"latest/two writers", {.writers = 2, .values = 1}},
};

}  // namespace
}  // namespace shmtensor::simulation
