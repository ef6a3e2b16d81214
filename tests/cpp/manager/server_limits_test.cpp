// A manager with few descriptors, and one with many connections.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "os/limits.hpp"
#include "support/queue_user.hpp"
#include "support/server.hpp"

namespace shmtensor {
namespace {

using testing::Child;
using testing::Client;
using testing::eventually;

// Simulates exhausted epoll watches (fs.epoll.max_user_watches): from now on this process cannot
// watch a descriptor with that number or a higher one.
void refuse_to_watch_from(int number) {
  const auto load = [](std::size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<__u32>(offset));
  };
  constexpr std::size_t kArguments = offsetof(seccomp_data, args);
  std::array<sock_filter, 8> program{{
      load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_ctl, 0, 5),
      load(kArguments + sizeof(__u64)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 3),
      load(kArguments + 2 * sizeof(__u64)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, static_cast<__u32>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{program.size(), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    throw_os("set a seccomp filter");
  }
}

class ServerScarce : public testing::ServerTest {
 protected:
  void limit_descriptors(rlim_t count) const {
    const rlimit limit{count, count};
    ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  }
  /// Another server, which soon cannot watch a descriptor any more.
  std::unique_ptr<Child> restart_with_few_watches() {
    server_->kill();
    server_.reset();
    std::optional<Fd> listener;
    EXPECT_TRUE(eventually([&] { return (listener = listen_on(object_name(id_))).has_value(); }));
    ::fcntl(listener->get(), F_SETFL, O_NONBLOCK);
    return std::make_unique<Child>([&] {
      refuse_to_watch_from(listener->duplicate().get() + 10);
      Server(id_, std::move(*listener)).run();
    });
  }
  /// Processor time that the server has used, in the kernel's ticks.
  [[nodiscard]] long ticks() const {
    std::ifstream file("/proc/" + std::to_string(server_->pid()) + "/stat");
    std::string text(std::istreambuf_iterator<char>(file), {});
    std::istringstream fields(text.substr(text.rfind(')') + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    long user = 0;
    long system = 0;
    fields >> user >> system;
    return user + system;
  }
};

TEST_F(ServerScarce, NewcomersAreRejectedAndMembersServed) {
  const Joined member = join();
  limit_descriptors(32);
  std::vector<std::unique_ptr<Client>> silent;
  const auto is_turned_away = [&] {
    silent.push_back(std::make_unique<Client>(id_));
    return silent.back()->is_hung_up_on(Join::observe);
  };
  int served = 0;
  while (served < 40 && !is_turned_away()) ++served;
  EXPECT_GT(served, 5);
  EXPECT_LT(served, 32);
  EXPECT_EQ(statistics(*member.client).processes, 1u);
  EXPECT_TRUE(is_turned_away()) << "immediately";

  const long before = ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LE(ticks() - before, 5) << "it is busy with connections that it cannot accept";

  silent.clear();
  EXPECT_TRUE(eventually([&] { return !is_turned_away(); })) << "a descriptor is free again";
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

TEST_F(ServerScarce, ConnectionsAreLimited) {
  rlimit limit{};
  ASSERT_EQ(::prlimit(server_->pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
  limit_descriptors(limit.rlim_max);
  const Joined member = join();
  testing::in_child([&] {
    raise_soft_limit(RLIMIT_NOFILE);
    std::vector<std::unique_ptr<Client>> others;
    do {
      others.push_back(std::make_unique<Client>(id_));
    } while (!others.back()->is_hung_up_on(Join::observe));
    EXPECT_EQ(others.size(), 4096u) << "with that of the member";
  });
  EXPECT_TRUE(eventually([&] { return !Client(id_).is_hung_up_on(Join::observe); }));
  EXPECT_EQ(statistics(*member.client).processes, 1u);
}

// Regression: its slot stayed in use, with a connection that no process had, and kept the session
// alive indefinitely.
TEST_F(ServerScarce, ForkWithUnpollableConnectionTakesNoSlot) {
  const auto server = restart_with_few_watches();
  {
    const Joined member = join();
    std::vector<Fd> lines;
    std::string why;
    while (why.empty() && lines.size() < 20) {
      auto [ours, childs] = socket_pair();
      why = refusal(member.client->ask(MessageKind::fork, &ours));
      if (why.empty()) lines.push_back(std::move(childs));
    }
    EXPECT_NE(why.find("ENOSPC"), std::string::npos) << why;
    EXPECT_EQ(statistics(*member.client).processes, 1 + lines.size());
    EXPECT_TRUE(Client(id_).is_hung_up_on(Join::observe)) << "it cannot be observed either";
    EXPECT_EQ(statistics(*member.client).processes, 1 + lines.size());
  }
  EXPECT_EQ(server->wait(), 0);
}

// Regression: the manager kept the socket and the pipe.
TEST_F(ServerScarce, QueueWithUnpollableSocketCostsNothing) {
  const auto server = restart_with_few_watches();
  const auto descriptors = [&] {
    const std::string folder = "/proc/" + std::to_string(server->pid()) + "/fd";
    const std::filesystem::directory_iterator open(folder);
    return std::distance(begin(open), end(open));
  };
  testing::QueueUser user(id_);
  user.make(0);
  std::vector<std::unique_ptr<Client>> others;
  do {
    others.push_back(std::make_unique<Client>(id_));
  } while (!others.back()->is_hung_up_on(Join::observe));
  const auto before = descriptors();
  try {
    static_cast<void>(user.queue().watch(QueueEvent::message));
    ADD_FAILURE() << "the socket is watched";
  } catch (const SessionError& error) {
    EXPECT_NE(std::string(error.what()).find("ENOSPC"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(eventually([&] { return descriptors() == before; }));
}

// A descriptor for which the receiver has no room is dropped.
TEST_F(ServerScarce, ArenaWithoutFreeDescriptorIsRejected) {
  const Joined member = join();
  std::vector<std::unique_ptr<Client>> others;
  for (int i = 0; i < 10; ++i) {
    others.push_back(std::make_unique<Client>(id_));
    EXPECT_TRUE(others.back()->hello(Join::observe).has_value());
  }
  limit_descriptors(12);
  Message message = message_for(MessageKind::register_arena, id_);
  message.arena = 1;
  EXPECT_EQ(member.client->ask(message, &member.memory->file())->message.kind,
            MessageKind::refused);
  EXPECT_EQ(statistics(*member.client).arenas, 0u);
}

}  // namespace
}  // namespace shmtensor
