// A process that has a request to the manager, and a notice for it, in two threads.
#include "queue/layout.hpp"
#include "session/held_block.hpp"
#include "simulation/manager.hpp"
#include "simulation/program.hpp"
#include "support/world.hpp"

namespace shmtensor::simulation {
namespace {

/// A block contains the ticket of another one. One thread releases it, and notifies the manager,
/// while the other one may have the connection.
class NoticeBesideRequest final : public Program {
 public:
  void build() override {
    session_ = Session::connect(Manager::get().memory().id(), Session::Start::never, {}, budget_);
    const HeldBlock inner(session_->allocate(64, Strategy::file_descriptor));
    outer_ = HeldBlock(session_->allocate(sizeof(MessageEntry), Strategy::file_descriptor));
    const std::span<std::byte> bytes = outer_->arena->bytes(outer_->number, Access::read_write);
    TicketRecord& record = reinterpret_cast<MessageEntry*>(bytes.data())->ticket;
    record.clear();
    outer_.set_contents(ring_contents(1));
    static_cast<void>(inner->arena->send(inner->number, record));
    static_cast<void>(manager_.memory().transit(session_->slot()));
    segment_ = &outer_->arena->segment();
    manager_.prepare(*segment_);
  }

  void start(Run& run) override {
    const ProcessNumber process = run.add_process("process", true);
    run.add_thread(
        process, [this] { static_cast<void>(session_->manager().find_arena(segment_->number())); });
    run.add_thread(process, [this] { outer_.reset(); });
    manager_.start(run, slots_);
  }

  void check(Run& run) override {
    if (testing::used_blocks(*segment_) != 0) run.fail("a block is left");
  }

 private:
  Manager manager_;
  Budget budget_;
  std::unique_ptr<Session> session_;
  HeldBlock outer_;
  const Segment* segment_ = nullptr;
  const std::array<SlotNumber, 1> slots_{0};
};
const Register<NoticeBesideRequest> notice_beside_request("notices/beside a request");

}  // namespace
}  // namespace shmtensor::simulation
