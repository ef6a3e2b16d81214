// Creates the memory of a new session, or adopts that of a session whose manager was killed.
#include <utility>
#include <vector>

#include "manager/recovery.hpp"
#include "manager/server.hpp"
#include "os/fault_point.hpp"

namespace shmtensor {

void Server::find_or_start(const Message& message, Fd fd) {
  if (fd) return adopt_session(SessionMemory::open(session_, std::move(fd)));
  if (auto recovered = recover_session(session_)) return adopt_session(std::move(recovered));
  if (message.join != Join::create) return;
  const TakeFile empty = [this](Fd file) { registry_.empty(std::move(file)); };
  sweep_names(false, empty);
  // `sweep_names` considers the session alive, since this manager serves it.
  remove_names_of(session_, empty);
  assume_session(SessionMemory::create(session_));
}

void Server::assume_session(std::unique_ptr<SessionMemory> memory) {
  if (memory->has_manager()) throw_lives_elsewhere();
  memory->claim_manager();
  claimed_ = memory->header().manager.load();
  memory_ = std::move(memory);
  slots_ = std::make_unique<SlotTable>(*memory_);
}

void Server::adopt_session(std::unique_ptr<SessionMemory> memory) {
  assume_session(std::move(memory));
  slots_->take_over();
  SHMTENSOR_FAULT_POINT("manager.adopt");
  find_arenas();
  slots_->for_each_in_use([this](SlotNumber slot) { watch(slot); });
  memory_->header().deaths.fetch_add(1);
  registry_.notify_owners();
}

void Server::find_arenas() {
  FoundArenas found = recover_arenas(session_);
  std::vector<ArenaRegistry::Found> arenas;
  for (auto& segment : found.segments) {
    const bool lives = owner_lives(*segment);
    arenas.push_back({std::move(segment), lives});
  }
  registry_.add(std::move(arenas), *memory_, slots_->unused());
  knows_all_arenas_ = found.all;
}

void Server::add_arena(std::unique_ptr<Segment> segment) {
  const bool lives = owner_lives(*segment);
  registry_.add(std::move(segment), lives, *memory_, slots_->unused());
}

bool Server::owner_lives(const Segment& segment) {
  const ArenaHeader& header = segment.header();
  const SlotTable::Occupant& owner = (*slots_)[static_cast<SlotNumber>(header.owner)];
  return owner.taken && owner.incarnation == header.owner_incarnation;
}

}  // namespace shmtensor
