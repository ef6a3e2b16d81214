// As csrc/manager/connection.cpp; the manager is another thread of the simulation.
#include "manager/connection.hpp"

#include "simulation/manager.hpp"

namespace shmtensor {

using simulation::Manager;

Connection::Connection(Fd socket) : socket_(std::move(socket)) {}

Connection Connection::open(const SessionId& /*session*/, const std::string& /*program*/) {
  return Connection(Manager::get().connect());
}

std::optional<Reply> Connection::ask(const Message& request, int descriptor) {
  return Manager::get().answer(request, descriptor);
}

bool Connection::notify(const Message& message, int /*descriptor*/) noexcept {
  Manager::get().take(message);
  return true;
}

void Connection::close() noexcept { socket_.reset(); }
void Connection::shut_down() noexcept {}
void reap_managers() {}

}  // namespace shmtensor
