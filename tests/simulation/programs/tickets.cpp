// Tickets are issued, claimed and searched for while their groups are used again.
#include <bit>
#include <memory>
#include <optional>

#include "arena/transit.hpp"
#include "simulation/manager.hpp"
#include "simulation/program.hpp"

namespace shmtensor::simulation {
namespace {

constexpr ArenaNumber kArena = 5;
constexpr BlockNumber kPinned = 7;
constexpr BlockNumber kFirst = kPinned + TransitTable::kBuckets;  // in the same bucket
constexpr BlockNumber kOther = kPinned + 1;                       // in another one

/// A block has a live ticket, whose group follows that of a ticket which two processes claim. Then
/// two threads of the sender may use that group for another block, in another bucket.
class Reuse final : public Program {
 public:
  void build() override {
    writer_ = std::make_unique<TransitWriter>(manager_.memory(), 0);
    pinned_ = issue(*writer_, kPinned);
    first_ = issue(*writer_, kFirst);
  }

  void start(Run& run) override {
    const ProcessNumber sender = run.add_process("sender", true);
    for (auto& ticket : issued_) {
      run.add_thread(sender, [&] { ticket = issue(*writer_, kOther); });
    }
    for (int& claims : claims_) {
      run.add_thread(run.add_process("receiver", true), [&] { claims += claim(first_, kFirst); });
    }
    run.add_thread(run.add_process("searcher", true), [&] {
      run.expect(table_.has_live(kArena, kPinned, 1), "a search misses a live ticket");
      run.expect(!table_.has_live(kArena, kOther, 2), "a search finds a ticket never issued");
    });
  }

  void check(Run& run) override {
    const bool claimed = !run.is_dead(1) && !run.is_dead(2);
    const int claims = claims_[0] + claims_[1] + claim(first_, kFirst);
    if (claims > 1 || (claimed && claims == 0)) run.fail("a ticket is not claimed once");
    if (!claim(pinned_, kPinned)) run.fail("a live ticket cannot be claimed");
    for (const auto& ticket : issued_) {
      if (ticket && !claim(*ticket, kOther)) run.fail("a live ticket cannot be claimed");
    }
    if (!run.is_dead(0) && table_.any_live()) run.fail("a ticket is left");
    TransitWriter next(manager_.memory(), 0);
    for (const BlockNumber block : {kPinned, kFirst, kOther}) {
      if (!claim(issue(next, block), block)) run.fail("the next process cannot issue tickets");
    }
  }

 private:
  [[nodiscard]] static Ticket issue(TransitWriter& writer, BlockNumber block) {
    return writer.issue(kArena, block, 1);
  }
  [[nodiscard]] int claim(const Ticket& ticket, BlockNumber block) {
    return table_.claim(ticket, kArena, block, 1) ? 1 : 0;
  }

  Manager manager_;
  TransitTable& table_ = manager_.memory().transit(0);
  std::unique_ptr<TransitWriter> writer_;
  Ticket pinned_;
  Ticket first_;
  std::array<std::optional<Ticket>, 2> issued_;
  std::array<int, 2> claims_{};
};
const Register<Reuse> reuse("tickets/reuse");

}  // namespace
}  // namespace shmtensor::simulation
