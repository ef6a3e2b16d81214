// Processes that build, find, remove and evict the items of a cache, which are killed, while the
// manager sweeps.
#include "simulation/programs/cache_world.hpp"

namespace shmtensor::simulation {
namespace {

/// One step of a thread.
struct Act {
  enum class Do : std::uint8_t {
    get,  ///< find the item, or build it, or wait for who builds it
    find,
    hold,  ///< find the item, and keep it until `release`
    release,
    add,  ///< without a turn
    remove,
    evict,  ///< as a process that lacks memory
    clear,
  };
  Do what = Do::get;
  std::uint32_t key = 0;
};
using Acts = std::vector<Act>;
using Do = Act::Do;

/// Each thread acts in a process of its own, unless the first two share one.
class CacheProgram final : public CacheWorld {
 public:
  struct Roles {
    std::vector<Acts> threads;
    bool shares = false;                  ///< the first two threads are of one process
    bool blocks = false;                  ///< each item has a block of its own
    std::vector<std::uint32_t> before{};  ///< keys of items that are there
    std::uint32_t most = 0;               ///< items; 0: no limit
  };

  explicit CacheProgram(Roles roles)
      : CacheWorld(roles.blocks, roles.most), roles_(std::move(roles)) {}

  void build() override {
    build_cache(process_of(static_cast<std::uint32_t>(roles_.threads.size())));
    for (const std::uint32_t key : roles_.before) model_.add_key(key);
    for (const Acts& acts : roles_.threads) {
      for (const Act& act : acts) model_.add_key(act.key);
    }
    // The places name the tickets of earlier items. An arena has few blocks, so many items are
    // added once, and without blocks.
    const bool few = roles_.before.size() <= 4;
    if (few) {
      for (const std::uint32_t key : roles_.before) add(0, key, true);
      for (const std::uint32_t key : roles_.before) remove(0, key);
    }
    for (const std::uint32_t key : roles_.before) add(0, key, few && roles_.blocks);
    name_words();
  }

  void start(Run& run) override {
    model_.start(run);
    for (std::uint32_t i = 0; i < processes_.size(); ++i) {
      run.add_process("user " + std::to_string(i), true);
    }
    for (std::uint32_t i = 0; i < roles_.threads.size(); ++i) {
      run.add_thread(process_of(i), [this, i] { act(process_of(i), roles_.threads[i]); });
    }
    manager_.start(run, slots_);
  }

 private:
  [[nodiscard]] std::uint32_t process_of(std::uint32_t thread) const {
    return roles_.shares && thread != 0 ? thread - 1 : thread;
  }

  void act(std::uint32_t process, const Acts& acts) {
    std::optional<Found> held;
    std::size_t holder = 0;
    for (const Act& act : acts) {
      switch (act.what) {
        case Do::get:
          get(process, act.key);
          break;
        case Do::find:
          find(process, act.key);
          break;
        case Do::hold:
          held = find(process, act.key);
          if (held) holder = model_.hold(process, held->number, held->begin);
          break;
        case Do::release:
          if (!held) break;
          expect_whole(held->block, held->number);
          model_.release(holder);
          held.reset();
          break;
        case Do::add:
          add(process, act.key, roles_.blocks);
          break;
        case Do::remove:
          remove(process, act.key);
          break;
        case Do::evict:
          static_cast<void>(evict(process, Evict::own) || evict(process, Evict::unheld));
          break;
        case Do::clear:
          while (evict(process, Evict::any)) {
          }
          break;
      }
    }
  }

  const Roles roles_;
};

Acts get(std::uint32_t key) { return {{Do::get, key}}; }
Acts find(std::uint32_t key) { return {{Do::find, key}}; }
Acts add(std::uint32_t key) { return {{Do::add, key}}; }
Acts remove(std::uint32_t key) { return {{Do::remove, key}}; }
Acts replace(std::uint32_t key) { return {{Do::remove, key}, {Do::add, key}}; }
/// Holds an item while this looks another one up.
Acts hold(std::uint32_t key, std::uint32_t other) {
  return {{Do::hold, key}, {Do::find, other}, {Do::release}};
}
Acts operator+(Acts acts, const Acts& more) {
  acts.insert(acts.end(), more.begin(), more.end());
  return acts;
}

const std::vector<std::uint32_t> kFirstTable{0, 1, 2, 3, 4, 5, 6, 7};
/// With those that are in one bucket of the second table.
const std::vector<std::uint32_t> kSecondTable{0, 1,  2,  3,  4,  5,  6,  7,
                                              8, 10, 12, 14, 16, 18, 20, 22};

const Register<CacheProgram> cache_programs[] = {
    {"cache/build/two", {.threads = {get(0), get(0)}}},
    {"cache/build/three", {.threads = {get(0), get(0), get(0)}, .blocks = true}},
    {"cache/build/threads", {.threads = {get(0), get(0), get(0)}, .shares = true}},
    {"cache/build/removed", {.threads = {get(0), get(0) + remove(0), get(0)}, .blocks = true}},
    // There is no record for one of three builds.
    {"cache/build/many", {.threads = {get(0) + get(2), get(1) + get(2), get(2)}, .blocks = true}},
    {"cache/replaced/content",
     {.threads = {find(0) + find(0), replace(0) + replace(0)}, .before = {0}}},
    {"cache/replaced/blocks",
     {.threads = {hold(0, 0), replace(0) + replace(0)}, .blocks = true, .before = {0}}},
    {"cache/replaced/two writers",
     {.threads = {hold(0, 0), replace(0), replace(0)}, .blocks = true, .before = {0}}},
    {"cache/replaced/rivals",
     {.threads = {add(0), add(0) + find(0), remove(0)}, .blocks = true, .before = {0}}},
    {"cache/replaced/cleared",
     {.threads = {find(0), replace(1), {{Do::clear}}}, .blocks = true, .before = {0, 1}}},
    {"cache/limit/held",
     {.threads = {hold(0, 1), add(2) + find(2)}, .blocks = true, .before = {0, 1}, .most = 2}},
    {"cache/limit/all held",
     {.threads = {hold(0, 0), get(1)}, .blocks = true, .before = {0}, .most = 1}},
    {"cache/limit/two adders",
     {.threads = {add(2), add(3), hold(1, 0)}, .blocks = true, .before = {0, 1}, .most = 2}},
    {"cache/limit/evicted",
     {.threads = {hold(1, 0), {{Do::evict}}, get(0)},
      .blocks = true,
      .before = {0, 1, 2},
      .most = 3}},
    {"cache/tables/second",
     {.threads = {add(8) + find(9), add(9) + find(8), find(0)}, .before = kFirstTable}},
    {"cache/tables/blocks",
     {.threads = {add(8) + remove(8), add(8) + find(8)}, .blocks = true, .before = kFirstTable}},
    {"cache/tables/third",
     {.threads = {add(24) + find(26), add(26) + find(24), find(22)}, .before = kSecondTable}},
    {"cache/tables/threads",
     {.threads = {find(8), find(8) + find(0), replace(8)}, .shares = true, .before = kFirstTable}},
};

}  // namespace
}  // namespace shmtensor::simulation
