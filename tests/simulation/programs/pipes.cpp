// Processes that have the ends of a pipe send, receive, hand an end on and close it, and are
// killed, while the manager sweeps.
#include <poll.h>

#include <algorithm>
#include <array>
#include <set>

#include "channel/queue.hpp"
#include "queue/pipe_end.hpp"
#include "simulation/programs/channel_world.hpp"

namespace shmtensor::simulation {
namespace {

/// End e writes queue e, and reads the other one. Each message is received at most once, in order,
/// and before the end of its sender; an end is noticed if, and only if, no living process has it,
/// and it is in no message.
class PipeProgram : public ChannelWorld<Queue> {
 public:
  enum class Act : std::uint8_t {
    send,          ///< a message with a block
    send_all,      ///< until the other end has ended
    receive,       ///< a message
    receive_all,   ///< until the other end has ended
    watch,         ///< the same, asleep on the descriptor
    send_end,      ///< the end itself through the pipe
    mail,          ///< the end, by a queue that all have open
    fetch,         ///< an end from there, unless the first process has died or ended
    await,         ///< the first process has sent all, or has ended
    close,         ///< as Connection._close
    close_beside,  ///< another thread closes the end, from the beginning on
    renew,         ///< releases the queues and, after process 1, makes one of no pipe
    stay,          ///< has its ends and queues open after the run
  };
  struct Step {
    Act act;
    std::uint32_t end = 0;
  };
  struct Roles {
    std::vector<std::vector<Step>> scripts;  ///< of processes, which close their ends after it
    std::vector<std::vector<std::uint32_t>> ends;  ///< that they have at the beginning
    std::uint64_t limit = 0;                       ///< of each queue
    std::uint32_t unread = 0;     ///< messages that end 0 has sent before: the first ring is full
    std::uint32_t queues_of = 0;  ///< the process in whose arena the queues are
    std::uint32_t ends_of = 0;    ///< likewise
  };

  explicit PipeProgram(Roles roles)
      : roles_(std::move(roles)), users_(static_cast<std::uint32_t>(roles_.scripts.size())) {}

  void build() override {
    users_of_.resize(users_);
    build_channel(users_, Queue::bytes(false),
                  [](const Block& block) { Queue::create(block, QueueOptions{}); });
    for (std::uint32_t queue = 0; queue < 2; ++queue) {
      const HeldBlock made = make_queue(roles_.queues_of, roles_.limit);
      for (std::uint32_t i = 0; i < users_; ++i) {
        User& user = users_of_[i];
        user.blocks[queue] = received(i, *made);
        user.queues[queue] = std::make_unique<Queue>(session(i), *user.blocks[queue]);
      }
    }
    for (std::uint32_t end = 0; end < 2; ++end) {
      const HeldBlock made = make_end(end);
      names_[end] = {.arena = made->arena->segment().number(),
                     .block = made->number,
                     .generation = made->arena->generation(made->number)};
      for (std::uint32_t i = 0; i < users_; ++i) {
        if (std::ranges::find(roles_.ends[i], end) == roles_.ends[i].end()) continue;
        users_of_[i].ends[end] = received(i, *made);
        users_of_[i].has[end] = true;
      }
    }
    for (std::uint32_t i = 0; i < roles_.unread; ++i) send(0, 0, false);
    for (std::uint32_t i = 0; i < users_; ++i) {
      // An unread end lives as long as the queue.
      if (is_in_any(Act::fetch) && !is_in(i, Act::fetch) && !is_in(i, Act::mail)) release_mail(i);
    }
    name_words();
  }

  void start(Run& run) override {
    run_ = &run;
    for (std::uint32_t i = 0; i < users_; ++i) {
      run.add_thread(run.add_process("process " + std::to_string(i), true), [this, i] { act(i); });
    }
    for (std::uint32_t i = 0; i < users_; ++i) {
      for (const Step& step : roles_.scripts[i]) {
        if (step.act != Act::close_beside) continue;
        run.add_thread(i, [this, i, step] {
          close(i, step.end);
          is_closed_ = true;
        });
      }
    }
    manager_.start(run, slots_);
  }

  void check(Run& run) override {
    for (std::uint32_t i = 0; i < users_; ++i) {
      if (!run.has_ended(i)) return run.fail("a process sleeps");
    }
    for (std::uint32_t queue = 0; queue < 2; ++queue) {
      if (at_end_[queue] && unreceived(queue) > deaths()) return run.fail("a message was lost");
    }
    std::uint64_t held = 0;
    for (std::uint32_t i = 0; i < users_; ++i) {
      if (run.is_dead(i) || !users_of_[i].stays) continue;
      const User& user = users_of_[i];
      if (user.renewed) {
        const auto& queue = *reinterpret_cast<QueueHeader*>(bytes_of(*user.renewed));
        if (raw(queue.stage) != QueueStage::open) return run.fail("another queue is shut down");
      }
      held += (user.renewed ? 1u : 2u) + 1u;  // the queues
      held += roles_.unread != 0 ? 1u : 0u;   // the second ring
      held += user.has[0] + user.has[1] + 0u;
    }
    if (live_blocks() != held) return run.fail("a block is left");
  }

 private:
  static constexpr std::uint32_t kEnd = 2;  // the kind of a message with the block of an end

  struct User {
    std::array<HeldBlock, 2> blocks;  // of the queues
    std::array<std::unique_ptr<Queue>, 2> queues;
    std::array<HeldBlock, 2> ends;
    HeldBlock renewed;
    std::array<bool, 2> has{};  // an end, until it begins to close it
    std::uint32_t sent = 0;
    bool stays = false;
    std::array<std::uint64_t, 2> last{};  // the number of the last message, by queue
  };
  /// Where an end is while it is in a message.
  struct Letter {
    std::uint32_t sent = 0;
    std::uint32_t taken = 0;
    bool by_pipe = false;
  };

  HeldBlock make_queue(std::uint32_t process, std::uint64_t limit) {
    HeldBlock made(session(process).allocate(Queue::bytes(false), Strategy::file_descriptor));
    Queue::create(*made, {.limit = limit});
    return made;
  }
  HeldBlock make_end(std::uint32_t number) {
    HeldBlock made(session(roles_.ends_of).allocate(sizeof(PipeEnd), Strategy::file_descriptor));
    auto& end = *reinterpret_cast<PipeEnd*>(bytes_of(*made));
    end.written.write(name_of(*users_of_[0].blocks[number]));
    end.read.write(name_of(*users_of_[0].blocks[1 - number]));
    end.magic.store(kPipeEndMagic);
    made.set_contents(PipeEnd::contents());
    return made;
  }
  static QueueName name_of(const Block& block) {
    return {.arena = block.arena->segment().number(),
            .block = block.number,
            .generation = block.arena->generation(block.number)};
  }
  HeldBlock received(std::uint32_t process, const Block& made) {
    const PinnedArena arena =
        session(process).attach(made.arena->segment().number(), Strategy::file_descriptor);
    if (!testing::receive(*arena, testing::send(*made.arena, made.number))) {
      throw Error("the pipe is gone");
    }
    return HeldBlock({arena.get(), made.number});
  }

  [[nodiscard]] bool is_in(std::uint32_t process, Act act) const {
    return std::ranges::any_of(roles_.scripts[process],
                               [act](const Step& step) { return step.act == act; });
  }
  [[nodiscard]] bool is_in_any(Act act) const {
    for (std::uint32_t i = 0; i < users_; ++i) {
      if (is_in(i, act)) return true;
    }
    return false;
  }
  void release_mail(std::uint32_t process) {
    processes_[process]->channel.reset();
    processes_[process]->block.reset();
  }

  void act(std::uint32_t process) {
    for (const Step& step : roles_.scripts[process]) carry_out(process, step);
    User& user = users_of_[process];
    if (user.stays) return;
    for (std::uint32_t end = 0; end < 2; ++end) close(process, end);
    release_queues(user);
    release_mail(process);
  }
  void carry_out(std::uint32_t process, const Step& step) {
    User& user = users_of_[process];
    switch (step.act) {
      case Act::send:
        send(process, step.end);
        break;
      case Act::send_all:
        while (send(process, step.end)) {
        }
        break;
      case Act::receive:
        receive(process, step.end);
        break;
      case Act::receive_all:
        while (receive(process, step.end)) {
        }
        break;
      case Act::watch:
        watch(process, step.end);
        break;
      case Act::send_end:
      case Act::mail:
        send_end(process, step.end, step.act == Act::send_end);
        break;
      case Act::fetch:
        fetch(process);
        break;
      case Act::await:
        run_->wait_until([this] { return has_sent_ || run_->has_ended(0); });
        break;
      case Act::close:
        close(process, step.end);
        break;
      case Act::close_beside:
        run_->wait_until([this] { return is_closed_; });
        break;
      case Act::renew:
        release_queues(user);
        run_->wait_until([this] { return run_->has_ended(1); });
        user.renewed = make_queue(process, 0);
        break;
      case Act::stay:
        user.stays = true;
        if (process == 0) has_sent_ = true;
        break;
    }
  }

  bool send(std::uint32_t process, std::uint32_t end, bool with_block = true) {
    User& user = users_of_[process];
    if (!user.has[end]) return false;
    const bool ended = has_ended_[1 - end];
    const std::uint64_t number = std::uint64_t{process} << 32 | ++user.sent;
    HeldBlock block;
    if (with_block) {
      block = HeldBlock(session(process).allocate(kBlock, Strategy::file_descriptor));
      std::memcpy(bytes_of(*block), &number, sizeof number);
    }
    const Attempt result =
        put(process, *user.queues[end], with_block ? 1 : 0, number, block ? *block : Block{});
    if (result == Attempt::done) sent_[end].insert(number);
    if (run_ == nullptr) return true;
    run_->expect(result != Attempt::done || !ended, "a message is sent to an end that was closed");
    run_->expect(result == Attempt::done || !lives(1 - end), "a sender is shut down too early");
    return result == Attempt::done;
  }
  Attempt put(std::uint32_t process, Queue& queue, std::uint32_t kind, const std::uint64_t& number,
              const Block& block) {
    ChannelCall call(session(process));
    const Outgoing message{
        .kind = kind, .content = std::as_bytes(std::span(&number, 1)), .block = block};
    return attempt(queue, call, [&] { return queue.try_put(message, call); });
  }
  void send_end(std::uint32_t process, std::uint32_t end, bool by_pipe) {
    User& user = users_of_[process];
    Queue& queue = by_pipe ? *user.queues[end] : channel(process);
    const std::uint64_t number = end;
    letters_[end].by_pipe = by_pipe;
    if (put(process, queue, kEnd, number, *user.ends[end]) == Attempt::done) ++letters_[end].sent;
  }

  /// Returns false at the end.
  bool receive(std::uint32_t process, std::uint32_t end, bool waits = true) {
    User& user = users_of_[process];
    if (!user.has[end]) return false;
    return take(process, *user.queues[1 - end], 1 - end, waits,
                [&user, end] { return user.has[end]; });
  }
  template <typename IsOpen>
  bool take(std::uint32_t process, Queue& queue, std::uint32_t number_of_queue, bool waits,
            IsOpen&& is_open) {
    Incoming message;
    ChannelCall call(session(process));
    const Attempt result =
        attempt(queue, call, [&] { return queue.try_take(message, call); }, waits);
    if (result == Attempt::shut_down) {
      if (!is_open()) return false;
      run_->expect(!lives(number_of_queue), "a receiver gets the end of a living process");
      at_end_[number_of_queue] = true;
      return false;
    }
    if (result != Attempt::done) return true;
    run_->expect((message.kind != 0) == static_cast<bool>(message.block),
                 "a message lacks its block");
    std::uint64_t number = 0;
    std::memcpy(&number, message.content.data(), sizeof number);
    if (message.kind == kEnd) {
      take_end(process, static_cast<std::uint32_t>(number), std::move(message.block));
      return true;
    }
    std::uint64_t inside = number;
    if (message.block) std::memcpy(&inside, bytes_of(*message.block), sizeof inside);
    run_->expect(inside == number, "a message has another one's block");
    run_->expect(received_[number_of_queue].insert(number).second, "a message is received twice");
    std::uint64_t& last = users_of_[process].last[number_of_queue];
    run_->expect(number >> 32 != last >> 32 || number > last, "a message overtakes another one");
    last = number;
    return true;
  }
  void take_end(std::uint32_t process, std::uint32_t end, HeldBlock block) {
    User& user = users_of_[process];
    ++letters_[end].taken;
    user.has[end] = true;
    user.ends[end] = std::move(block);
  }
  void fetch(std::uint32_t process) {
    const auto& queue = header<QueueHeader>();
    run_->wait_until(
        [&] { return raw(queue.tail.count) != raw(queue.head.count) || run_->has_ended(0); });
    take(process, channel(process), 2, false, [] { return true; });
  }
  void watch(std::uint32_t process, std::uint32_t end) {
    Queue& queue = *users_of_[process].queues[1 - end];
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

  void close(std::uint32_t process, std::uint32_t end) {
    User& user = users_of_[process];
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
  static void release_queues(User& user) {
    for (std::uint32_t queue = 0; queue < 2; ++queue) {
      user.queues[queue].reset();
      user.blocks[queue].reset();
    }
  }

  [[nodiscard]] bool has_holder(std::uint32_t end) const {
    for (std::uint32_t i = 0; i < users_; ++i) {
      if (users_of_[i].has[end] && !run_->is_dead(i)) return true;
    }
    return false;
  }
  /// Return true if a process must not notice the end.
  [[nodiscard]] bool lives(std::uint32_t end) const {
    if (has_holder(end)) return true;
    const Letter& letter = letters_[end];
    return letter.sent > letter.taken && deaths() == 0 && (!letter.by_pipe || has_holder(1 - end));
  }
  [[nodiscard]] std::uint64_t deaths() const {
    std::uint64_t count = 0;
    for (std::uint32_t i = 0; i < users_; ++i) count += run_->is_dead(i) ? 1u : 0u;
    return count;
  }
  [[nodiscard]] std::uint64_t unreceived(std::uint32_t queue) const {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        sent_[queue], [&](std::uint64_t number) { return !received_[queue].contains(number); }));
  }

  void name_words() {
    const Snapshot::UseHeap own(Snapshot::Heap::own);
    for (std::uint32_t i = 0; i < 2; ++i) {
      auto& queue = *reinterpret_cast<QueueHeader*>(bytes_of(*users_of_[0].blocks[i]));
      const std::string which = " of queue " + std::to_string(i);
      Places& places = Places::get();
      places.name(&queue.stage, "stage" + which);
      places.name(&queue.tail.lock, "tail lock" + which);
      places.name(&queue.tail.count, "tail count" + which);
      places.name(&queue.head.lock, "head lock" + which);
      places.name(&queue.head.count, "head count" + which);
      places.name(&queue.getters, "getters" + which);
      places.name(&queue.putters, "putters" + which);
      const PinnedArena arena(*users_of_[0].blocks[i]->arena);
      places.name(&arena->segment().record(names_[i].block).word,
                  "word of end " + std::to_string(i));
    }
  }

  const Roles roles_;
  const std::uint32_t users_;
  std::vector<User> users_of_;
  std::array<QueueName, 2> names_;               // of the ends
  std::array<std::set<std::uint64_t>, 2> sent_;  // by queue
  std::array<std::set<std::uint64_t>, 2> received_;
  std::array<bool, 3> at_end_{};     // a process has received all of the queue
  std::array<bool, 2> has_ended_{};  // a process has closed the end, and no other one had it
  std::array<Letter, 2> letters_;    // by end
  bool has_sent_ = false;
  bool is_closed_ = false;
};

using enum PipeProgram::Act;

const Register<PipeProgram> pipe_programs[] = {
    {"pipe/pair", {.scripts = {{{send, 0}, {send, 0}}, {{receive_all, 1}}}, .ends = {{0}, {1}}}},
    {"pipe/question and answer",
     {.scripts = {{{send, 0}, {receive, 0}, {receive_all, 0}}, {{receive, 1}, {send, 1}}},
      .ends = {{0}, {1}}}},
    // The sender waits for room when the receiver ends.
    {"pipe/room for one",
     {.scripts = {{{send_all, 0}}, {{receive, 1}}}, .ends = {{0}, {1}}, .limit = 1}},
    // The sender goes on, so what no process reads any more does not wait for its end.
    {"pipe/unread", {.scripts = {{{send, 0}, {send, 0}, {stay}}, {{await}}}, .ends = {{0}, {1}}}},
    {"pipe/unread in two rings",
     {.scripts = {{{send, 0}, {stay}}, {{await}}}, .ends = {{0}, {1}}, .unread = 3}},
    {"pipe/two senders",
     {.scripts = {{{send, 0}}, {{receive_all, 1}}, {{send, 0}}}, .ends = {{0}, {1}, {0}}}},
    {"pipe/two receivers",
     {.scripts = {{{send, 0}, {send, 0}}, {{receive_all, 1}}, {{receive_all, 1}}},
      .ends = {{0}, {1}, {1}}}},
    // A process has both ends, as before it starts another one.
    {"pipe/inherited",
     {.scripts = {{{close, 1}, {receive_all, 0}}, {{send, 1}}}, .ends = {{0, 1}, {1}}}},
    {"pipe/handed on",
     {.scripts = {{{send, 0}, {mail, 0}, {close, 0}}, {{receive_all, 1}}, {{fetch}, {send, 0}}},
      .ends = {{0}, {1}, {}}}},
    {"pipe/through itself",
     {.scripts = {{{send_end, 0}, {close, 0}}, {{receive, 1}, {close, 0}, {receive_all, 1}}},
      .ends = {{0}, {1}}}},
    {"pipe/unread end", {.scripts = {{{send_end, 0}, {close, 0}}, {}}, .ends = {{0}, {1}}}},
    {"pipe/watch", {.scripts = {{{send, 0}}, {{watch, 1}}}, .ends = {{0}, {1}}}},
    {"pipe/two threads",
     {.scripts = {{{send, 0}, {send, 0}}, {{receive_all, 1}, {close_beside, 1}}},
      .ends = {{0}, {1}}}},
    // The manager learns of the end before it finds the queue of the dead process.
    {"pipe/queues in a later arena",
     {.scripts = {{{receive_all, 0}}, {{send, 1}, {send, 1}}}, .ends = {{0}, {1}}, .queues_of = 1}},
    // The block of a queue is used again before a manager that has taken over finds the ends.
    {"pipe/used again",
     {.scripts = {{{close, 0}, {renew}, {stay}}, {{close, 1}}}, .ends = {{0}, {1}}, .ends_of = 1}},
};

}  // namespace
}  // namespace shmtensor::simulation
