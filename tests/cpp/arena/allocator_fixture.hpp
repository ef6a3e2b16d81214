// An allocator over a small segment, and the words of the blocks it gives.
#pragma once

#include "arena/allocator.hpp"
#include "arena/host_data_segment.hpp"
#include "arena/session_memory.hpp"
#include "os/page_reservation.hpp"
#include "support/world_fixture.hpp"

namespace shmtensor::testing {

class AllocatorTest : public WorldTest {
 protected:
  static constexpr std::uint64_t kExtent = HostDataSegment::kExtent;

  [[nodiscard]] virtual Strategy strategy() const { return Strategy::file_descriptor; }

  void SetUp() override {
    segment_ = Segment::create(memory_->id(), 1, 0, 1, strategy(), kSmall);
    data_ = std::make_unique<HostDataSegment>(*segment_, &budget_);
    allocator_ = std::make_unique<Allocator>(*segment_, *data_);
  }

  /// Allocates a block and marks it live, as an arena does.
  std::optional<NewBlock> take(std::uint64_t size) {
    const std::lock_guard guard(lock_);
    return activated(allocator_->take(lock_, size));
  }
  std::optional<NewBlock> take_warm(std::uint64_t size) {
    return activated(allocator_->take_warm(size));
  }
  /// Frees in shared memory; the allocator has not noticed yet.
  void free_word(BlockNumber block) {
    std::atomic<std::uint64_t>& word = segment_->record(block).word;
    word.store(BlockWord(word.load()).freed().bits());
  }
  bool trim(std::uint64_t idle_milliseconds, std::uint64_t at_most = kUnlimited) {
    const std::lock_guard guard(lock_);
    return allocator_->trim(lock_, idle_milliseconds, at_most);
  }
  void give(BlockNumber block) {
    free_word(block);
    allocator_->reclaim(block);
  }
  [[nodiscard]] std::uint64_t usage() const { return file_usage(*segment_->file()); }
  [[nodiscard]] std::byte* at(const NewBlock& piece) const {
    return segment_->data(Access::read_write, piece.offset, 1);
  }

  std::unique_ptr<Segment> segment_;
  Budget budget_;
  YieldingLock lock_;
  std::unique_ptr<HostDataSegment> data_;
  std::unique_ptr<Allocator> allocator_;

 private:
  std::optional<NewBlock> activated(std::optional<NewBlock> piece) {
    if (piece) {
      std::atomic<std::uint64_t>& word = segment_->record(piece->block).word;
      EXPECT_FALSE(BlockWord(word.load()).live()) << piece->block << " was given out twice";
      word.store(BlockWord::live_at(BlockWord(word.load()).generation()).bits());
    }
    return piece;
  }
};

}  // namespace shmtensor::testing
