// Processes that send and receive by a pipe, hand its ends on and close them: each call is checked.
#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <set>

#include "channel/queue.hpp"
#include "queue/pipe_end.hpp"
#include "simulation/programs/channel_world.hpp"

namespace shmtensor::simulation {

/// End e writes queue e, and reads the other one. Each message is received at most once, in order,
/// and before the end of its sender; an end is noticed if, and only if, no living process has it,
/// and it is in no message. Beside the pipe, there is a queue that all have open: the mail.
class PipeWorld : public ChannelWorld<Queue> {
 protected:
  struct User {
    std::array<HeldBlock, 2> blocks;  // of the queues
    std::array<std::unique_ptr<Queue>, 2> queues;
    std::array<HeldBlock, 2> ends;
    std::array<bool, 2> has{};  // an end, until it begins to close it
    std::uint32_t sent = 0;
    std::array<std::uint64_t, 2> last{};  // the number of the last message, by queue
  };

  explicit PipeWorld(std::size_t processes) : users_(processes) {}

  void build_mail() {
    build_channel(static_cast<std::uint32_t>(users_.size()), Queue::bytes(false),
                  [](const Block& block) { Queue::create(block, QueueOptions{}); });
  }
  void release_mail(std::uint32_t process) {
    processes_[process]->channel.reset();
    processes_[process]->block.reset();
  }

  HeldBlock make_queue(std::uint32_t process, std::uint64_t limit) {
    HeldBlock made(session(process).allocate(Queue::bytes(false), Strategy::file_descriptor));
    Queue::create(*made, {.limit = limit});
    return made;
  }
  /// Makes a queue of the pipe, which all have open.
  void add_queue(std::uint32_t number, std::uint32_t process, std::uint64_t limit) {
    const HeldBlock made = make_queue(process, limit);
    for (std::uint32_t i = 0; i < users_.size(); ++i) {
      User& user = users_[i];
      user.blocks[number] = received(session(i), *made);
      user.queues[number] = std::make_unique<Queue>(session(i), *user.blocks[number]);
    }
  }
  /// Makes an end. `ends`: those that each process has.
  void add_end(std::uint32_t number, std::uint32_t process,
               const std::vector<std::vector<std::uint32_t>>& ends) {
    HeldBlock made(session(process).allocate(sizeof(PipeEnd), Strategy::file_descriptor));
    auto& end = *reinterpret_cast<PipeEnd*>(bytes_of(*made));
    end.written.write(name_of(*users_[0].blocks[number]));
    end.read.write(name_of(*users_[0].blocks[1 - number]));
    end.magic.store(kPipeEndMagic);
    made.set_contents(PipeEnd::contents());
    names_[number] = name_of(*made);
    for (std::uint32_t i = 0; i < users_.size(); ++i) {
      if (std::ranges::find(ends[i], number) == ends[i].end()) continue;
      users_[i].ends[number] = received(session(i), *made);
      users_[i].has[number] = true;
    }
  }

  /// Returns false if one of the ends is closed.
  bool send(std::uint32_t process, std::uint32_t end, bool with_block = true) {
    User& user = users_[process];
    if (!user.has[end]) return false;
    const bool ended = has_ended_[1 - end];
    const std::uint64_t number = std::uint64_t{process} << 32 | ++user.sent;
    const HeldBlock block = with_block ? make_block(process, number) : HeldBlock();
    const Attempt result = put(*user.queues[end], outgoing(with_block ? 1 : 0, number, block));
    if (result == Attempt::done) sent_[end].insert(number);
    if (run_ == nullptr) return true;
    run_->expect(result != Attempt::done || !ended, "a message is sent to an end that was closed");
    run_->expect(result == Attempt::done || !lives(1 - end), "a sender is shut down too early");
    return result == Attempt::done;
  }
  /// Sends the end itself.
  void send_end(std::uint32_t process, std::uint32_t end, bool by_pipe) {
    User& user = users_[process];
    const std::uint64_t number = end;
    letters_[end].by_pipe = by_pipe;
    const Attempt result =
        put(by_pipe ? *user.queues[end] : channel(process), outgoing(kEnd, number, user.ends[end]));
    if (result == Attempt::done) ++letters_[end].sent;
  }
  /// Returns false at the end.
  bool receive(std::uint32_t process, std::uint32_t end, bool waits = true) {
    User& user = users_[process];
    if (!user.has[end]) return false;
    const std::uint32_t queue = 1 - end;
    Incoming message;
    const Attempt result = take(*user.queues[queue], message, waits);
    if (result == Attempt::shut_down) {
      if (!user.has[end]) return false;
      run_->expect(!lives(queue), "a receiver gets the end of a living process");
      at_end_[queue] = true;
      return false;
    }
    if (result != Attempt::done) return true;
    if (message.kind == kEnd) {
      keep_end(user, message);
      return true;
    }
    const std::uint64_t number = number_in(message);
    run_->expect(received_[queue].insert(number).second, "a message is received twice");
    std::uint64_t& last = user.last[queue];
    run_->expect(number >> 32 != last >> 32 || number > last, "a message overtakes another one");
    last = number;
    return true;
  }
  /// Receives an end from the mail, unless the first process has died or ended.
  void fetch(std::uint32_t process) {
    const auto& queue = header<QueueHeader>();
    run_->wait_until(
        [&] { return raw(queue.tail.count) != raw(queue.head.count) || run_->has_ended(0); });
    Incoming message;
    if (take(channel(process), message, false) == Attempt::done) keep_end(users_[process], message);
  }
  /// Receives all until the other end has ended, asleep on the descriptor.
  void watch(std::uint32_t process, std::uint32_t end) {
    Queue& queue = *users_[process].queues[1 - end];
    const int descriptor = queue.watch(QueueEvent::message);
    for (bool more = true; more;) {
      run_->wait_until([&] {
        struct pollfd wanted{descriptor, POLLIN, 0};
        return ::poll(&wanted, 1, 0) > 0;
      });
      more = receive(process, end, false);
      if (queue.must_settle(QueueEvent::message)) queue.settle(QueueEvent::message);
    }
  }

  /// As Connection._close.
  void close(std::uint32_t process, std::uint32_t end) {
    User& user = users_[process];
    if (!user.has[end]) return;
    const PinnedArena arena(*user.ends[end]->arena);
    user.has[end] = false;
    user.ends[end].reset();
    const BlockWord word(arena->segment().record(names_[end].block).word.load());
    if (word.live_at_generation(names_[end].generation)) return;
    for (const auto& queue : user.queues) {
      if (queue) queue->shut_down();
    }
    has_ended_[end] = true;
  }
  void release_queues(std::uint32_t process) {
    for (std::uint32_t queue = 0; queue < 2; ++queue) {
      users_[process].queues[queue].reset();
      users_[process].blocks[queue].reset();
    }
  }

  /// After a run: return true if more was lost than what the dead may have received.
  [[nodiscard]] bool has_lost_any() const {
    for (std::uint32_t queue = 0; queue < 2; ++queue) {
      const auto unreceived = std::ranges::count_if(
          sent_[queue], [&](std::uint64_t number) { return !received_[queue].contains(number); });
      if (at_end_[queue] && unreceived > deaths()) return true;
    }
    return false;
  }

  void name_words() {
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    for (std::uint32_t i = 0; i < 2; ++i) {
      auto& queue = *reinterpret_cast<QueueHeader*>(bytes_of(*users_[0].blocks[i]));
      const std::string which = " of queue " + std::to_string(i);
      Places& places = Places::get();
      name_words_of(queue, which);
      places.name(&queue.head.lock, "head lock" + which);
      places.name(&queue.head.count, "head count" + which);
      const PinnedArena arena(*users_[0].blocks[i]->arena);
      places.name(&arena->segment().record(names_[i].block).word,
                  "word of end " + std::to_string(i));
    }
  }

  std::vector<User> users_;

 private:
  static constexpr std::uint32_t kEnd = 2;  // the kind of a message with the block of an end

  /// Where an end is while it is in a message.
  struct Letter {
    std::uint32_t sent = 0;
    std::uint32_t taken = 0;
    bool by_pipe = false;
  };

  static QueueName name_of(const Block& block) {
    return {.arena = block.arena->segment().number(),
            .block = block.number,
            .generation = block.arena->generation(block.number)};
  }
  void keep_end(User& user, Incoming& message) {
    const std::uint64_t end = number_in(message);
    ++letters_[end].taken;
    user.has[end] = true;
    user.ends[end] = std::move(message.block);
  }

  [[nodiscard]] bool has_holder(std::uint32_t end) const {
    for (std::uint32_t i = 0; i < users_.size(); ++i) {
      if (users_[i].has[end] && !run_->is_dead(i)) return true;
    }
    return false;
  }
  /// Return true if a process must not notice the end.
  [[nodiscard]] bool lives(std::uint32_t end) const {
    if (has_holder(end)) return true;
    const Letter& letter = letters_[end];
    return letter.sent > letter.taken && deaths() == 0 && (!letter.by_pipe || has_holder(1 - end));
  }
  [[nodiscard]] std::int64_t deaths() const {
    std::int64_t count = 0;
    for (std::uint32_t i = 0; i < users_.size(); ++i) count += run_->is_dead(i) ? 1 : 0;
    return count;
  }

  std::array<QueueName, 2> names_;               // of the ends
  std::array<std::set<std::uint64_t>, 2> sent_;  // by queue
  std::array<std::set<std::uint64_t>, 2> received_;
  std::array<bool, 2> at_end_{};     // a process has received all of the queue
  std::array<bool, 2> has_ended_{};  // a process has closed the end, and no other one had it
  std::array<Letter, 2> letters_;    // by end
};

}  // namespace shmtensor::simulation
