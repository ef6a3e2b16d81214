#include "manager/member_requests.hpp"

#include <string>
#include <utility>

#include "manager/messages.hpp"
#include "os/fault_point.hpp"
#include "os/unix_socket.hpp"

namespace shmtensor {
namespace {

std::string all_slots_taken() {
  return "all " + std::to_string(kMaxSlots) +
         " slots of the session are taken, one by each process that uses it; end some, or let "
         "others use another session (SHMTENSOR_SESSION)";
}

}  // namespace

void MemberRequests::hello(Client& client, const Message& message, Fd fd,
                           const EndConnection& end) {
  if (client.slot != kNoSlot)
    return refuse(client.socket, message, "this connection already has a slot");
  const FileIdentity brought = fd ? fd.identity() : FileIdentity{};
  if (!session_.exists()) {
    session_.find_or_start(message.join, std::move(fd));
    if (!session_.exists()) return reply(client.socket, message, MessageKind::unknown);
    deaths_.watch_all();
  }

  Message answer = message;
  if (message.join != Join::observe) {
    const pid_t pid = peer_credentials(client.socket).pid;
    const ProcessIdentity process{pid, start_time_of(pid)};
    Fd pidfd = peer_pidfd(client.socket);
    if (!pidfd && pid > 0) pidfd = open_pidfd(process);
    if (message.slot < kMaxSlots) {
      if (!take_back(client, message, process, std::move(pidfd), brought, end)) {
        return refuse(client.socket, message,
                      "the slot was reclaimed: the manager considered this process dead");
      }
    } else if (!assign(client, message, process, std::move(pidfd))) {
      return refuse(client.socket, message, all_slots_taken());
    }
    answer.slot = client.slot;
    answer.incarnation = session_.slots()[client.slot].incarnation;
  }
  SHMTENSOR_FAULT_POINT("manager.before_welcome");
  reply(client.socket, answer, MessageKind::welcome, &session_.memory().file());
}

bool MemberRequests::take_back(Client& client, const Message& message, ProcessIdentity process,
                               Fd pidfd, FileIdentity brought, const EndConnection& end) {
  SlotTable& slots = session_.slots();
  const auto slot = static_cast<SlotNumber>(message.slot);
  SlotTable::Occupant& old = slots[slot];
  const bool same = slots.is_unknown(slot) ? brought == session_.memory().file().identity()
                                           : old.process.pid == 0 || old.process.pid == process.pid;
  const auto is_known = [&] { return old.taken && old.incarnation == message.incarnation; };
  if (is_known() && same && old.connection >= 0) end(old.connection);
  if (!is_known() || !same || old.connection >= 0) return false;
  client.slot = slot;
  old.connection = client.socket.get();
  if (!old.pidfd) {
    slots.identify(slot, process, std::move(pidfd));
    deaths_.watch(slot);
  }
  return true;
}

bool MemberRequests::assign(Client& client, const Message& message, ProcessIdentity process,
                            Fd pidfd) {
  SlotTable& slots = session_.slots();
  // A slot that an earlier manager reserved for this process, which did not enter it. Processes of
  // another PID namespace cannot be distinguished.
  slots.for_each_in_use([&](SlotNumber given) {
    const SlotTable::Occupant& occupant = slots[given];
    if (process.pid > 0 && occupant.process == process && occupant.connection < 0 &&
        slots.is_awaited(given)) {
      deaths_.reclaim(given);
    }
  });
  deaths_.sweep();
  const auto slot = slots.assign(process, message.parent, std::move(pidfd), client.socket.get());
  if (!slot) return false;
  client.slot = *slot;
  deaths_.watch(*slot);
  return true;
}

void MemberRequests::fork(const Client& client, Fd fd) {
  Message message;
  message.session = session_.id();
  if (!is_socket(fd)) return refuse(client.socket, message, "a fork request needs a socket");
  ask_for_sender(fd);
  if (clients_.full()) {
    return refuse(
        client.socket, message,
        "the manager has too many connections (limit " + std::to_string(Clients::kMost) + ")");
  }
  // Before a slot is reserved for the child: a connection without a slot may stay, like that of a
  // process which has just connected.
  Client& child = clients_.add(std::move(fd));
  SlotTable& slots = session_.slots();
  const auto slot = slots.assign_to_child(slots[client.slot].process.pid, child.socket.get());
  if (!slot) return refuse(client.socket, message, all_slots_taken());
  child.slot = *slot;
  message.slot = *slot;
  message.incarnation = slots[*slot].incarnation;
  SHMTENSOR_FAULT_POINT("manager.before_fork_reply");
  reply(client.socket, message, MessageKind::done);
}

void MemberRequests::child(const Client& client, pid_t sender) {
  if (client.slot == kNoSlot || !session_.slots()[client.slot].forking) return;
  const ProcessIdentity child{sender, start_time_of(sender)};
  session_.slots().identify(client.slot, child, open_pidfd(child));
  deaths_.watch(client.slot);
}

void MemberRequests::registered(const Client& client) {
  if (client.slot != kNoSlot) session_.slots()[client.slot].registered = true;
}

}  // namespace shmtensor
