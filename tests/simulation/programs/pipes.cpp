// Processes that have the ends of a pipe send, receive, hand an end on and close it, and are
// killed, while the manager sweeps.
#include "simulation/programs/pipe_world.hpp"

namespace shmtensor::simulation {
namespace {

class PipeProgram final : public PipeWorld {
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

  explicit PipeProgram(Roles roles) : PipeWorld(roles.scripts.size()), roles_(std::move(roles)) {}

  void build() override {
    build_mail();
    for (std::uint32_t i = 0; i < 2; ++i) add_queue(i, roles_.queues_of, roles_.limit);
    for (std::uint32_t i = 0; i < 2; ++i) add_end(i, roles_.ends_of, roles_.ends);
    for (std::uint32_t i = 0; i < roles_.unread; ++i) send(0, 0, false);
    bool fetches = false;
    for (std::uint32_t i = 0; i < users_.size(); ++i) fetches = fetches || is_in(i, Act::fetch);
    for (std::uint32_t i = 0; i < users_.size(); ++i) {
      // An unread end lives as long as the queue.
      if (fetches && !is_in(i, Act::fetch) && !is_in(i, Act::mail)) release_mail(i);
    }
    name_words();
  }

  void start(Run& run) override {
    run_ = &run;
    for (std::uint32_t i = 0; i < users_.size(); ++i) {
      run.add_thread(run.add_process("process " + std::to_string(i), true), [this, i] { act(i); });
    }
    for (std::uint32_t i = 0; i < users_.size(); ++i) {
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
    std::uint64_t held = 0;
    for (std::uint32_t i = 0; i < users_.size(); ++i) {
      if (!run.has_ended(i)) return run.fail("a process sleeps");
      if (run.is_dead(i) || !stays_[i]) continue;
      if (renewed_[i]) {
        const auto& queue = *reinterpret_cast<QueueHeader*>(bytes_of(*renewed_[i]));
        if (raw(queue.stage) != QueueStage::open) return run.fail("another queue is shut down");
      }
      held += (renewed_[i] ? 1u : 2u) + 1u;  // the queues
      held += roles_.unread != 0 ? 1u : 0u;  // the second ring
      held += users_[i].has[0] + users_[i].has[1] + 0u;
    }
    if (has_lost_any()) return run.fail("a message was lost");
    if (live_blocks() != held) return run.fail("a block is left");
  }

 private:
  [[nodiscard]] bool is_in(std::uint32_t process, Act act) const {
    return std::ranges::find(roles_.scripts[process], act, &Step::act) !=
           roles_.scripts[process].end();
  }

  void act(std::uint32_t process) {
    for (const Step& step : roles_.scripts[process]) carry_out(process, step);
    if (stays_[process]) return;
    for (std::uint32_t end = 0; end < 2; ++end) close(process, end);
    release_queues(process);
    release_mail(process);
  }
  void carry_out(std::uint32_t process, const Step& step) {
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
        release_queues(process);
        run_->wait_until([this] { return run_->has_ended(1); });
        renewed_[process] = make_queue(process, 0);
        break;
      case Act::stay:
        stays_[process] = true;
        if (process == 0) has_sent_ = true;
        break;
    }
  }

  const Roles roles_;
  std::array<bool, Run::kThreads> stays_{};
  std::array<HeldBlock, Run::kThreads> renewed_;
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
