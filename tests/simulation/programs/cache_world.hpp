// Processes that find, build, add, remove and evict the items of a cache: each call is checked.
#pragma once

#include <algorithm>
#include <array>

#include "channel/cache_turn.hpp"
#include "simulation/programs/cache_left.hpp"
#include "simulation/programs/cache_model.hpp"
#include "simulation/programs/channel_world.hpp"

namespace shmtensor::simulation {

/// Beside the rules of `CacheModel`: an item that is found is whole. No process waits for a dead
/// one. A held item is not evicted.
class CacheWorld : public ChannelWorld<Cache> {
 public:
  void check(Run& run) override {
    for (std::uint32_t i = 0; i < processes_.size(); ++i) {
      if (!run.has_ended(i)) return run.fail("a process waits indefinitely");
    }
    if (!anyone_lives(run)) {
      if (live_blocks() != 0) run.fail("a block is left after all processes");
      return;
    }
    const CacheLeft left(run, header<CacheHeader>(), manager_, model_.keys());
    if (run.outcome().failure) return;
    const Cache::Numbers numbers = channel(0).numbers();
    if (numbers.items != left.items) return run.fail("the items are counted wrong");
    if (numbers.bytes != left.bytes) return run.fail("the bytes of the items are counted wrong");
    if (numbers.max_bytes != 0 && left.bytes > numbers.max_bytes) {
      return run.fail("the items have more bytes than the limit");
    }
    if (live_blocks() != left.blocks) return run.fail("a block is left");
    std::uint32_t living = 0;
    while (run.is_dead(living)) ++living;
    for (std::uint32_t key = 0; key < model_.keys(); ++key) {
      if (model_.is_there(key) && !left.keys[key]) return run.fail("an item was lost");
      Incoming item;
      const bool found = try_find(living, key, item) == Attempt::done;
      if (found != left.keys[key]) return run.fail("an item is not found afterwards");
    }
  }

 protected:
  struct Found {
    std::uint64_t number;
    std::uint64_t begin;  ///< of the call
    HeldBlock block;
  };

  /// `most`: items that fit; 0: no limit.
  CacheWorld(bool blocks, std::uint32_t most) : blocks_(blocks), most_(most) {}

  void build_cache(std::uint32_t processes) {
    build_channel(processes, Cache::kBytes, [this](const Block& block) {
      Cache::create(block, {.max_bytes = most_ * (sizeof(CachePlace) + (blocks_ ? kBlock : 0))});
    });
  }

  std::optional<Found> find(std::uint32_t process, std::uint32_t key) {
    const CacheModel::Call begun = model_.begin(key);
    Incoming item;
    if (try_find(process, key, item) != Attempt::done) {
      model_.note_missing(begun, "an item that is there is not found");
      return std::nullopt;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, item.content.data(), sizeof number);
    model_.note_found(begun, number);
    const Words words = words_of(number);
    model_.expect(
        item.size == sizeof words && std::memcmp(item.content.data(), &words, sizeof words) == 0,
        "parts of two items are found");
    model_.expect((item.kind == 1) == static_cast<bool>(item.block), "an item lacks its block");
    expect_whole(item.block, number);
    return Found{.number = number, .begin = begun.begin, .block = std::move(item.block)};
  }
  void expect_whole(const HeldBlock& block, std::uint64_t number) {
    if (!block) return;
    const Words words = words_of(number);
    model_.expect(std::memcmp(bytes_of(*block), &words, sizeof words) == 0,
                  "an item has another one's block");
    const BlockWord word(raw(block->arena->segment().record(block->number).word));
    model_.expect(word.live(), "the block of an item was freed while it was held");
  }

  /// Finds the item, or builds it, or waits for who builds it.
  void get(std::uint32_t process, std::uint32_t key) {
    if (find(process, key)) return;
    std::optional<std::uint32_t> record;
    while (!take_turn(process, key, record)) {
      if (find(process, key)) return;
    }
    if (record) model_.begin_build(process, key);
    add(process, key, blocks_);
    if (record) {
      model_.end_build(key);
      CacheTurn::end(channel(process), *record);
    }
    find(process, key);
  }

  void add(std::uint32_t process, std::uint32_t key, bool with_block) {
    const CacheModel::Call begun = model_.begin(key);
    const std::uint64_t number = model_.new_item(key);
    const Words words = words_of(number);
    const HeldBlock block = with_block ? make_block(process, words) : HeldBlock();
    const Outgoing item = outgoing(with_block ? 1 : 0, words, block);
    const auto one = [&](Cache& cache, ChannelCall& call) {
      return cache.try_add(key_of(key), item, call);
    };
    const Attempt result = most_ != 0 ? make_room(process, key, true, one) : try_by(process, one);
    model_.expect(result == Attempt::done || most_ != 0, "an item has no place");
    model_.note_added(number);
    if (result == Attempt::done) model_.note_there(begun);
  }
  void remove(std::uint32_t process, std::uint32_t key) {
    const std::uint64_t begin = model_.begin_removal(key);
    static_cast<void>(try_by(process, [key](Cache& cache, ChannelCall& call) {
      return cache.try_remove(key_of(key), call);
    }));
    model_.end_removal(key);
    model_.note_removed(key, begin);
  }
  bool evict(std::uint32_t process, Evict which) {
    const auto one = [which](Cache& cache, ChannelCall& call) {
      return cache.try_evict(which, call);
    };
    return make_room(process, CacheModel::kNoKey, which != Evict::any, one) == Attempt::done;
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

  const bool blocks_;  // each item has a block of its own
  const std::uint32_t most_;
  CacheModel model_;

 private:
  using Words = std::array<std::uint64_t, 3>;

  static CacheKey key_of(std::uint32_t key) { return {.first = key + 1u, .second = key}; }
  static Words words_of(std::uint64_t number) {
    Words words{};
    for (std::uint32_t i = 0; i < words.size(); ++i) words[i] = number | std::uint64_t{i} << 32;
    return words;
  }

  // As the product does: an item for which there is no room ends the attempt.
  template <typename Try>
  Attempt try_by(std::uint32_t process, Try&& one) {
    ChannelCall call(session(process));
    Cache& cache = channel(process);
    return attempt(cache, call, [&] { return one(cache, call); }, false);
  }
  Attempt try_find(std::uint32_t process, std::uint32_t key, Incoming& item) {
    return try_by(process, [key, &item](Cache& cache, ChannelCall& call) {
      return cache.try_find(key_of(key), item, call);
    });
  }
  /// Returns false if the item is there.
  bool take_turn(std::uint32_t process, std::uint32_t key, std::optional<std::uint32_t>& record) {
    const CacheModel::Call begun = model_.begin(key);
    CacheTurn turn(channel(process), key_of(key));
    ChannelCall call(session(process));
    attempt(turn, call, [&] { return turn.try_take(call); });
    record = turn.record();
    if (turn.is_there()) {
      model_.note_there(begun);
      return false;
    }
    model_.note_missing(begun, "an item that is there is built");
    return true;
  }

  /// Items of other keys than `but` may go; if `spares`, none that is held.
  template <typename Try>
  Attempt make_room(std::uint32_t process, std::uint32_t but, bool spares, Try&& one) {
    const std::uint64_t begin = model_.begin_evictions(but);
    const Attempt result = try_by(process, one);
    model_.end_evictions(but);
    for (const std::uint64_t number : model_.held_since(begin)) {
      model_.expect(!spares || is_in_first_table(number), "an item was evicted while it was held");
    }
    return result;
  }
  bool is_in_first_table(std::uint64_t number) {
    return std::ranges::any_of(header<CacheHeader>().first_places, [&](const CachePlace& place) {
      return CachePlace::has_item(raw(place.version)) &&
             std::memcmp(place.item.content.data(), &number, sizeof number) == 0;
    });
  }
};

}  // namespace shmtensor::simulation
