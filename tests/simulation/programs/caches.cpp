// Processes that build, find, remove and evict the items of a cache, which are killed, while the
// manager sweeps.
#include <algorithm>
#include <array>

#include "channel/cache_turn.hpp"
#include "manager/drain.hpp"
#include "simulation/programs/channel_world.hpp"

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

/// An item that is found is whole, and was added for its key. One that was added is found until a
/// process begins to remove or evict it, and not after that. No two processes build the same, and
/// none waits for a dead one. A held item is not evicted.
class CacheProgram : public ChannelWorld<Cache> {
 public:
  struct Roles {
    std::vector<Acts> threads;            ///< each in a process of its own
    bool shares = false;                  ///< the first two threads are of one process
    bool blocks = false;                  ///< each item has a block of its own
    std::vector<std::uint32_t> before{};  ///< keys of items that are there
    std::uint32_t most = 0;               ///< items; 0: no limit
  };

  explicit CacheProgram(Roles roles)
      : roles_(std::move(roles)),
        users_(static_cast<std::uint32_t>(roles_.threads.size()) - (roles_.shares ? 1u : 0u)) {}

  void build() override {
    build_channel(users_, Cache::kBytes, [this](const Block& block) {
      Cache::create(block, {.max_bytes = roles_.most * bytes_of_item()});
    });
    items_.reserve(128);
    keys_.resize(1);
    for (const std::uint32_t key : roles_.before)
      keys_.resize(std::max<std::size_t>(keys_.size(), key + 1));
    for (const Acts& acts : roles_.threads) {
      for (const Act& act : acts) keys_.resize(std::max<std::size_t>(keys_.size(), act.key + 1));
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
    run_ = &run;
    for (std::uint32_t i = 0; i < users_; ++i) run.add_process("user " + std::to_string(i), true);
    for (std::uint32_t i = 0; i < roles_.threads.size(); ++i) {
      const std::uint32_t process = roles_.shares && i != 0 ? i - 1 : i;
      run.add_thread(process, [this, i, process] { act(process, roles_.threads[i]); });
    }
    manager_.start(run, slots_);
  }

  void check(Run& run) override {
    for (std::uint32_t i = 0; i < users_; ++i) {
      if (!run.has_ended(i)) return run.fail("a process waits indefinitely");
    }
    if (!anyone_lives(run)) {
      if (live_blocks() != 0) run.fail("a block is left after all processes");
      return;
    }
    const Left left = look(run);
    if (run.outcome().failure) return;
    const Cache::Numbers numbers = channel(0).numbers();
    if (numbers.items != left.items) return run.fail("the items are counted wrong");
    if (numbers.bytes != left.bytes) return run.fail("the bytes of the items are counted wrong");
    if (numbers.max_bytes != 0 && left.bytes > numbers.max_bytes) {
      return run.fail("the items have more bytes than the limit");
    }
    for (std::uint32_t key = 0; key < keys_.size(); ++key) {
      if (keys_[key].there_since != 0 && !left.keys[key]) return run.fail("an item was lost");
    }
    if (live_blocks() != left.blocks) return run.fail("a block is left");
    look_up_all(run, left);
  }

 private:
  static constexpr std::uint32_t kWords = 3;
  using Words = std::array<std::uint64_t, kWords>;

  struct Item {
    std::uint32_t key;
    bool added = false;        ///< or another one of the key was there
    std::uint64_t gone_since;  ///< 0: it may be there
  };
  struct Key {
    std::uint64_t there_since = 0;  ///< an item that no process removes; 0: perhaps there is none
    std::uint32_t removers = 0;
    std::uint64_t last_removal = 0;      ///< its begin
    std::uint32_t builders_process = 0;  ///< + 1
  };
  struct Holder {
    std::uint32_t process;
    std::uint64_t number;
    bool holds;  ///< since before any process that makes room now began to
  };
  /// What is left after a run.
  struct Left {
    std::uint64_t items = 0;
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 1;  // the cache's
    std::vector<bool> keys;
  };
  /// Maps tables after a run.
  class Mapper final : public RingMapper {
   public:
    explicit Mapper(const ArenaRegistry& arenas) : arenas_(arenas) {}
    std::span<std::byte> map_ring(const NamedTicket& named, Strategy /*strategy*/) override {
      const Segment* const segment = arenas_.find(named.arena);
      if (segment == nullptr) return {};
      return bytes_in(*segment, named.block).value_or(std::span<std::byte>());
    }

   private:
    const ArenaRegistry& arenas_;
  };

  static CacheKey key_of(std::uint32_t key) { return {.first = key + 1u, .second = key}; }
  [[nodiscard]] std::uint64_t bytes_of_item() const {
    return sizeof(CachePlace) + (roles_.blocks ? kBlock : 0);
  }
  static Words words_of(std::uint64_t number) {
    Words words{};
    for (std::uint32_t i = 0; i < kWords; ++i) words[i] = number | std::uint64_t{i} << 32;
    return words;
  }
  void expect(bool holds, const char* rule) {
    if (run_ != nullptr) run_->expect(holds, rule);
  }

  // As the product does: an item for which there is no room ends the attempt.
  template <typename Source, typename Try>
  static Attempt attempt(Source& source, ChannelCall& call, Try&& one) {
    for (;;) {
      const Attempt result = one();
      if (is_final(result) || result == Attempt::full || result == Attempt::empty) return result;
      source.prepare(result, call, std::chrono::hours(1));
    }
  }

  void act(std::uint32_t process, const Acts& acts) {
    HeldBlock held;
    Holder* holder = nullptr;
    for (const Act& act : acts) {
      switch (act.what) {
        case Do::get:
          get(process, act.key);
          break;
        case Do::find:
          static_cast<void>(find(process, act.key));
          break;
        case Do::hold: {
          const std::uint64_t begin = ++now_;
          if (const auto number = find(process, act.key, &held)) {
            holder = &holders_.at(next_holder_++);
            *holder = {.process = process,
                       .number = *number,
                       .holds = evictors_ == 0 && last_eviction_ < begin};
          }
          break;
        }
        case Do::release:
          if (holder == nullptr) break;
          expect_whole(held, holder->number);
          holder->holds = false;
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

  // --- what processes know ---

  void begin_removal(std::uint32_t key) {
    ++keys_[key].removers;
    keys_[key].there_since = 0;
  }
  void end_removal(std::uint32_t key) {
    --keys_[key].removers;
    keys_[key].last_removal = ++now_;
  }
  void begin_evictions(std::uint32_t but) {
    ++evictors_;
    for (std::uint32_t key = 0; key < keys_.size(); ++key) {
      if (key != but) begin_removal(key);
    }
  }
  void end_evictions(std::uint32_t but) {
    --evictors_;
    last_eviction_ = ++now_;
    for (std::uint32_t key = 0; key < keys_.size(); ++key) {
      if (key != but) end_removal(key);
    }
  }
  /// The item was there at some instant since that time.
  void note_there(std::uint32_t key, std::uint64_t since) {
    Key& of = keys_[key];
    if (of.there_since == 0 && of.removers == 0 && of.last_removal < since) of.there_since = since;
  }

  // --- acts ---

  std::optional<std::uint64_t> find(std::uint32_t process, std::uint32_t key,
                                    HeldBlock* held = nullptr) {
    const std::uint64_t begin = ++now_;
    const std::uint64_t there_since = keys_[key].there_since;
    Incoming item;
    ChannelCall call(session(process));
    const Attempt found = attempt(
        channel(process), call, [&] { return channel(process).try_find(key_of(key), item, call); });
    if (found != Attempt::done) {
      expect(there_since == 0 || keys_[key].there_since != there_since,
             "an item that is there is not found");
      return std::nullopt;
    }
    note_there(key, begin);
    std::uint64_t number = 0;
    std::memcpy(&number, item.content.data(), sizeof number);
    expect(number < items_.size() && items_[number].key == key, "an item of another key is found");
    const Item& of = items_[number];
    expect(of.gone_since == 0 || of.gone_since > begin, "an item is found after its removal");
    const Words words = words_of(number);
    expect(item.size == sizeof words && std::memcmp(item.content.data(), &words, sizeof words) == 0,
           "parts of two items are found");
    expect((item.kind == 1) == static_cast<bool>(item.block), "an item lacks its block");
    expect_whole(item.block, number);
    if (held != nullptr) *held = std::move(item.block);
    return number;
  }

  void expect_whole(const HeldBlock& block, std::uint64_t number) {
    if (!block) return;
    const Words words = words_of(number);
    expect(std::memcmp(bytes_of(*block), &words, sizeof words) == 0,
           "an item has another one's block");
    const BlockWord word(raw(block->arena->segment().record(block->number).word));
    expect(word.live(), "the block of an item was freed while it was held");
  }

  void get(std::uint32_t process, std::uint32_t key) {
    if (find(process, key)) return;
    std::optional<std::uint32_t> record;
    while (!take_turn(process, key, record)) {
      if (find(process, key)) return;
    }
    Key& of = keys_[key];
    if (record) {
      expect(of.builders_process == 0 || run_->is_dead(of.builders_process - 1),
             "two processes build an item");
      of.builders_process = process + 1;
    }
    add(process, key, roles_.blocks);
    if (record) {
      of.builders_process = 0;
      CacheTurn::end(channel(process), *record);
    }
    static_cast<void>(find(process, key));
  }

  /// Returns false if the item is there.
  bool take_turn(std::uint32_t process, std::uint32_t key, std::optional<std::uint32_t>& record) {
    const std::uint64_t begin = ++now_;
    const std::uint64_t there_since = keys_[key].there_since;
    CacheTurn turn(channel(process), key_of(key));
    ChannelCall call(session(process));
    ChannelWorld::attempt(turn, call, [&] { return turn.try_take(call); });
    record = turn.record();
    if (turn.is_there()) {
      note_there(key, begin);
      return false;
    }
    expect(there_since == 0 || keys_[key].there_since != there_since,
           "an item that is there is built");
    return true;
  }

  void add(std::uint32_t process, std::uint32_t key, bool with_block) {
    const std::uint64_t begin = ++now_;
    const std::uint64_t number = items_.size();
    items_.push_back({.key = key, .gone_since = 0});
    const Words words = words_of(number);
    HeldBlock block;
    if (with_block) {
      block = HeldBlock(session(process).allocate(kBlock, Strategy::file_descriptor));
      std::memcpy(bytes_of(*block), &words, sizeof words);
    }
    const std::vector<Holder> holders(holders_.begin(), holders_.begin() + next_holder_);
    if (roles_.most != 0) begin_evictions(key);
    ChannelCall call(session(process));
    const Outgoing item{.kind = with_block ? 1u : 0u,
                        .content = std::as_bytes(std::span(words)),
                        .block = block ? *block : Block{},
                        .block_bytes = with_block ? kBlock : 0};
    const Attempt result = attempt(
        channel(process), call, [&] { return channel(process).try_add(key_of(key), item, call); });
    if (roles_.most != 0) end_evictions(key);
    expect(result == Attempt::done || roles_.most != 0, "an item has no place");
    items_[number].added = true;
    if (result == Attempt::done) note_there(key, begin);
    if (roles_.most != 0) expect_held(holders);
  }

  /// The items that a process has held since before an attempt to make room are there.
  void expect_held(const std::vector<Holder>& before) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!before[i].holds || !holders_[i].holds || run_->is_dead(before[i].process)) continue;
      expect(is_in_first_table(before[i].number), "an item was evicted while it was held");
    }
  }
  bool is_in_first_table(std::uint64_t number) {
    return std::ranges::any_of(header<CacheHeader>().first_places, [&](const CachePlace& place) {
      return CachePlace::has_item(raw(place.version)) &&
             std::memcmp(place.item.content.data(), &number, sizeof number) == 0;
    });
  }

  void remove(std::uint32_t process, std::uint32_t key) {
    begin_removal(key);
    const std::size_t before = items_.size();
    std::vector<bool> known(before);
    for (std::size_t i = 0; i < before; ++i) known[i] = items_[i].added && items_[i].key == key;
    ChannelCall call(session(process));
    static_cast<void>(attempt(channel(process), call,
                              [&] { return channel(process).try_remove(key_of(key), call); }));
    end_removal(key);
    for (std::size_t i = 0; i < before; ++i) {
      if (known[i] && items_[i].gone_since == 0) items_[i].gone_since = now_;
    }
  }

  bool evict(std::uint32_t process, Evict which) {
    constexpr std::uint32_t kNone = ~0u;
    const std::vector<Holder> holders(holders_.begin(), holders_.begin() + next_holder_);
    begin_evictions(kNone);
    ChannelCall call(session(process));
    const Attempt result =
        attempt(channel(process), call, [&] { return channel(process).try_evict(which, call); });
    end_evictions(kNone);
    if (which != Evict::any) expect_held(holders);
    return result == Attempt::done;
  }

  // --- after a run ---

  Left look(Run& run) {
    auto& cache = header<CacheHeader>();
    Left left;
    left.keys.resize(keys_.size());
    if (cache.changes.lock.load() != 0) run.fail("the lock is left");
    if (cache.change.load() != 0) run.fail("a change is left");
    for (const CacheBuild& build : cache.builds) {
      if (build.owner.load() != 0) run.fail("a build is left");
    }
    Mapper mapper(manager_.arenas());
    for (std::uint32_t number = 0; number < cache.tables.load(); ++number) {
      const CacheTable table = cache_table(cache, number, mapper);
      const std::uint64_t begin = cache_places(number) - CacheSizes::kFirstPlaces;
      for (std::uint64_t i = 0; i < cache_places(number); ++i)
        look_at(run, table.at(begin + i), left);
      left.blocks += number != 0 ? 1 : 0;
    }
    return left;
  }
  void look_at(Run& run, const CacheSpot& spot, Left& left) {
    const std::uint64_t first = spot.first->load();
    const bool has_item = CachePlace::has_item(spot.place->version.load());
    if ((first != 0) != has_item) return run.fail("a place is neither free nor taken");
    if (!has_item) return;
    const std::uint64_t key = first - 1;
    if (key >= keys_.size() || left.keys[key]) return run.fail("a key has two items");
    left.keys[key] = true;
    ++left.items;
    left.bytes += spot.place->item.bytes.load();
    if (spot.place->item.kind.load() == 0) return;
    const auto named = spot.place->item.ticket.read();
    if (!named || !manager_.memory().transit(named->ticket.sender).is_live(*named)) {
      return run.fail("an item has no ticket");
    }
    ++left.blocks;
  }
  void look_up_all(Run& run, const Left& left) {
    std::uint32_t process = 0;
    while (run.is_dead(process)) ++process;
    for (std::uint32_t key = 0; key < keys_.size(); ++key) {
      Incoming item;
      ChannelCall call(session(process));
      const Attempt found = attempt(channel(process), call, [&] {
        return channel(process).try_find(key_of(key), item, call);
      });
      if ((found == Attempt::done) != left.keys[key])
        return run.fail("an item is not found afterwards");
    }
  }

  void name_words() {
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    Places& places = Places::get();
    auto& cache = header<CacheHeader>();
    places.name(&cache.changes.lock, "lock");
    places.name(&cache.changes.count, "count");
    places.name(&cache.change, "change");
    places.name(&cache.tables, "tables");
    places.name(&cache.builders, "builders");
    for (std::uint32_t i = 0; i < CacheSizes::kBuilds; ++i) {
      places.name(&cache.builds[i].owner, "owner of build " + std::to_string(i));
    }
    for (std::uint32_t i = 0; i < 3; ++i) {
      const std::string of = " of place " + std::to_string(i);
      places.name(&cache.first_places[i].version, "version" + of);
      places.name(&cache.first_places[i].item.ticket.name, "ticket" + of);
      places.name(&cache.first_buckets[0].firsts[i], "key" + of);
    }
  }

  const Roles roles_;
  const std::uint32_t users_;
  std::uint64_t now_ = 0;
  std::vector<Item> items_;  // by number
  std::vector<Key> keys_;
  std::array<Holder, 16> holders_{};
  std::uint32_t next_holder_ = 0;
  std::uint32_t evictors_ = 0;  // that make room now
  std::uint64_t last_eviction_ = 0;
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
