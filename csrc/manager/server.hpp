// The manager's loop: one thread, one epoll, no Python.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "manager/directory.hpp"
#include "manager/protocol.hpp"
#include "manager/seats.hpp"
#include "os/fd.hpp"
#include "os/poller.hpp"

namespace shmtensor {

/// Serves one session until the last of its processes is gone.
class Server {
 public:
  Server(SessionId session, Fd listener);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns when nobody is left.
  void run();

 private:
  struct Line {
    Fd socket;
    SlotNumber slot = kNoSlot;
  };

  void accept_some();
  bool turn_away();
  int add_line(Fd socket);
  void serve(int descriptor);
  void answer(Line& line, Message& message, Fd fd, pid_t sender);
  void hello(Line& line, const Message& message, Fd fd);
  void adopt(std::unique_ptr<SessionMemory> memory);
  void find_or_start(const Message& message, Fd fd);
  void take_charge(std::unique_ptr<SessionMemory> memory);
  void register_arena(const Line& line, const Message& message, Fd fd);
  void add_arena(std::unique_ptr<Segment> segment);
  void find_arena(const Line& line, const Message& message);
  void next_arena(const Line& line, const Message& message);
  void keep_chunk(const Line& line, const Message& message, Fd fd);
  void find_chunk(const Line& line, const Message& message);
  void prepare_fork(const Line& line, Fd fd);
  void settle_child(const Line& line, pid_t sender);

  void watch(SlotNumber slot);
  void close_line(int descriptor) noexcept;
  void drop_line(int descriptor);
  void check_seat(SlotNumber slot);
  void look_again();
  void vacate(SlotNumber slot);

  [[nodiscard]] int timeout();
  [[nodiscard]] bool finished();

  SessionId session_;
  Fd listener_;
  Fd spare_;  ///< closed to make room for turning a newcomer away
  Poller poller_;
  std::map<int, Line> lines_;
  std::unique_ptr<SessionMemory> memory_;
  std::uint32_t claimed_ = 0;  ///< what says in the session's memory that this is its manager
  std::unique_ptr<Seats> seats_;
  Directory directory_;
  std::uint64_t empty_since_ = 0;
  std::uint64_t looked_at_ = 0;  ///< milliseconds; the last look at seats without a line
  SlotNumber looked_until_ = 0;
};

}  // namespace shmtensor
