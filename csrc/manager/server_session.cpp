// Creates the memory of a new session, or adopts that of a session whose manager was killed.
#include <utility>

#include "manager/recovery.hpp"
#include "manager/server.hpp"
#include "os/fault_point.hpp"
#include "os/robust_word.hpp"

namespace shmtensor {

void Server::find_or_start(const Message& message, Fd fd) {
  if (fd) return adopt(SessionMemory::open(session_, std::move(fd)));
  if (auto recovered = recover_session(session_)) return adopt(std::move(recovered));
  if (message.join != Join::create) return;
  const TakeFile empty = [this](Fd file) { directory_.empty(std::move(file)); };
  sweep_names(false, empty);
  // `sweep_names` considers the session alive, since this manager serves it.
  remove_names_of(session_, empty);
  take_charge(SessionMemory::create(session_));
}

void Server::take_charge(std::unique_ptr<SessionMemory> memory) {
  if (memory->has_manager()) throw_lives_elsewhere();
  memory_ = std::move(memory);
  SessionHeader& header = memory_->header();
  header.manager_starts.fetch_add(1);
  claim_robust(header.manager);
  claimed_ = header.manager.load();
  seats_ = std::make_unique<Seats>(*memory_);
}

void Server::adopt(std::unique_ptr<SessionMemory> memory) {
  take_charge(std::move(memory));
  seats_->take_over();
  SHMTENSOR_FAULT_POINT("manager.adopt");
  find_arenas();
  seats_->for_each_taken([this](SlotNumber slot) { watch(slot); });
  memory_->header().deaths.fetch_add(1);
  directory_.tell_owners();
}

void Server::find_arenas() {
  FoundArenas found = recover_arenas(session_);
  for (auto& segment : found.segments) {
    if (directory_.find(segment->number()) == nullptr) add_arena(std::move(segment));
  }
  knows_all_arenas_ = found.all;
}

void Server::add_arena(std::unique_ptr<Segment> segment) {
  const ArenaHeader& header = segment->header();
  const Seats::Seat& owner = (*seats_)[static_cast<SlotNumber>(header.owner)];
  directory_.add(std::move(segment), owner.taken && owner.life == header.owner_life, *memory_,
                 seats_->unused());
}

}  // namespace shmtensor
