// What must hold of the items of a cache, by what its processes have begun and ended.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "simulation/run.hpp"

namespace shmtensor::simulation {

/// An item that is found was added for its key. One that was added is found until a process begins
/// to remove or evict it, and not after that. No two processes build the same.
class CacheModel {
 public:
  /// A call that adds an item, or asks for it.
  struct Call {
    std::uint32_t key;
    std::uint64_t begin;
    std::uint64_t there_since;  ///< at the begin; 0: perhaps there is none
  };
  static constexpr std::uint32_t kNoKey = ~0u;

  /// From here on, a broken rule ends the run.
  void start(Run& run) { run_ = &run; }
  void expect(bool holds, const char* rule) const {
    if (run_ != nullptr) run_->expect(holds, rule);
  }

  void add_key(std::uint32_t key) { keys_.resize(std::max<std::size_t>(keys_.size(), key + 1)); }
  [[nodiscard]] std::size_t keys() const { return keys_.size(); }
  [[nodiscard]] bool is_there(std::uint32_t key) const { return keys_[key].there_since != 0; }

  [[nodiscard]] Call begin(std::uint32_t key) {
    return {.key = key, .begin = ++now_, .there_since = keys_[key].there_since};
  }
  /// The item was there at some instant since the begin.
  void note_there(const Call& call) {
    Key& key = keys_[call.key];
    const bool may_be_gone = key.removers != 0 || key.last_removal >= call.begin;
    if (key.there_since == 0 && !may_be_gone) key.there_since = call.begin;
  }
  void note_missing(const Call& call, const char* rule) const {
    expect(call.there_since == 0 || keys_[call.key].there_since != call.there_since, rule);
  }
  void note_found(const Call& call, std::uint64_t number) {
    note_there(call);
    expect(number < items_.size() && items_[number].key == call.key,
           "an item of another key is found");
    const std::uint64_t gone_since = items_[number].gone_since;
    expect(gone_since == 0 || gone_since > call.begin, "an item is found after its removal");
  }

  void begin_build(std::uint32_t process, std::uint32_t key) {
    auto& builder = keys_[key].builder;
    expect(!builder || run_->is_dead(*builder), "two processes build an item");
    builder = process;
  }
  void end_build(std::uint32_t key) { keys_[key].builder.reset(); }

  /// Returns the number of an item that a process begins to add.
  [[nodiscard]] std::uint64_t new_item(std::uint32_t key) {
    items_.push_back({.key = key});
    return items_.size() - 1;
  }
  /// It was added, or another one of the key was there.
  void note_added(std::uint64_t number) { items_[number].added = ++now_; }

  /// These return the begin, for what follows the end.
  std::uint64_t begin_removal(std::uint32_t key) {
    ++keys_[key].removers;
    keys_[key].there_since = 0;
    return now_;
  }
  std::uint64_t begin_evictions(std::uint32_t but) {
    ++evictors_;
    for (std::uint32_t key = 0; key < keys_.size(); ++key) {
      if (key != but) begin_removal(key);
    }
    return now_;
  }
  void end_removal(std::uint32_t key) {
    --keys_[key].removers;
    keys_[key].last_removal = ++now_;
  }
  void end_evictions(std::uint32_t but) {
    --evictors_;
    last_eviction_ = ++now_;
    for (std::uint32_t key = 0; key < keys_.size(); ++key) {
      if (key != but) end_removal(key);
    }
  }
  void note_removed(std::uint32_t key, std::uint64_t begin) {
    for (Item& item : items_) {
      const bool was_there = item.key == key && item.added != 0 && item.added <= begin;
      if (was_there && item.gone_since == 0) item.gone_since = now_;
    }
  }

  /// Returns the number of the holder of an item that a call with this begin has found.
  std::size_t hold(std::uint32_t process, std::uint64_t number, std::uint64_t begin) {
    const bool may_be_gone = evictors_ != 0 || last_eviction_ >= begin;
    holders_.push_back(
        {.process = process, .number = number, .since = may_be_gone ? kNever : ++now_});
    return holders_.size() - 1;
  }
  void release(std::size_t holder) { holders_[holder].since = kNever; }
  [[nodiscard]] std::vector<std::uint64_t> held_since(std::uint64_t begin) const {
    std::vector<std::uint64_t> numbers;
    for (const Holder& holder : holders_) {
      const bool holds = holder.since <= begin && !run_->is_dead(holder.process);
      if (holds) numbers.push_back(holder.number);
    }
    return numbers;
  }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Item {
    std::uint32_t key;
    std::uint64_t added = 0;       ///< 0: not yet
    std::uint64_t gone_since = 0;  ///< 0: it may be there
  };
  struct Key {
    std::uint64_t there_since = 0;  ///< an item that no process removes; 0: perhaps there is none
    std::uint32_t removers = 0;
    std::uint64_t last_removal = 0;
    std::optional<std::uint32_t> builder{};
  };
  struct Holder {
    std::uint32_t process;
    std::uint64_t number;
    std::uint64_t since;  ///< never if a process that made room may have evicted the item
  };

  Run* run_ = nullptr;
  std::uint64_t now_ = 0;
  std::vector<Item> items_;  // by number
  std::vector<Key> keys_;
  std::vector<Holder> holders_;
  std::uint32_t evictors_ = 0;  // that make room now
  std::uint64_t last_eviction_ = 0;
};

}  // namespace shmtensor::simulation
