// Invalid files that a peer may send.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>

#include "arena/segment.hpp"
#include "base/error.hpp"
#include "os/memfd.hpp"
#include "os/page_reservation.hpp"
#include "os/shm_object.hpp"
#include "os/unix_socket.hpp"
#include "support/world.hpp"

namespace shmtensor {
namespace {

using testing::kSmall;

class SegmentRefusal : public ::testing::Test {
 protected:
  /// A sealed file with the header of a valid arena, changed by `damage`.
  [[nodiscard]] Fd forged(const std::function<void(ArenaHeader&)>& damage,
                          std::uint64_t size = kSmall.data()) const {
    const auto good = Segment::create(id_, 7, 0, 1, Strategy::file_descriptor, kSmall);
    Fd file = create_memfd("forged");
    set_file_size(file, size);
    seal_against_shrinking(file);
    const Mapping page = Mapping::of_file(file, 0, page_size(), Access::read_write);
    std::memcpy(page.data(), &good->header(), sizeof(ArenaHeader));
    damage(*reinterpret_cast<ArenaHeader*>(page.data()));
    return file;
  }

  /// Returns the reason for the refusal; empty if the file is accepted.
  [[nodiscard]] std::string refusal(Fd file) const {
    try {
      static_cast<void>(Segment::open(id_, 7, std::move(file)));
      return "";
    } catch (const SessionError& error) {
      const std::string text = error.what();
      return text.substr(text.rfind(": ") + 2);
    }
  }
  [[nodiscard]] std::string refusal(const std::function<void(ArenaHeader&)>& damage) const {
    return refusal(forged(damage));
  }

  const SessionId id_ = testing::fresh_session();
};

TEST_F(SegmentRefusal, AcceptsValidCopy) {
  EXPECT_EQ(refusal([](ArenaHeader&) {}), "");
}

TEST_F(SegmentRefusal, RejectsOtherArena) {
  const std::string other = "the session id or arena number does not match";
  EXPECT_EQ(refusal([](ArenaHeader& header) { ++header.number; }), other);
  EXPECT_EQ(refusal([](ArenaHeader& header) { ++header.session.low; }), other);
  EXPECT_EQ(refusal([](ArenaHeader& header) { ++header.session.high; }), other);
}

TEST_F(SegmentRefusal, RejectsOtherVersionsAndForeignFiles) {
  const std::string unknown = "the file was not created by this version of shmtensor";
  EXPECT_EQ(refusal([](ArenaHeader& header) { ++header.version; }), unknown);
  EXPECT_EQ(refusal([](ArenaHeader& header) { header.magic = 0; }), unknown)
      << "its creator was killed";
  EXPECT_EQ(refusal([](ArenaHeader& header) { ++header.magic; }), unknown);
}

TEST_F(SegmentRefusal, RejectsCorruptedGeometry) {
  const std::string damaged = "the header is damaged";
  for (const std::uint32_t blocks : {0u, 1u, 2048u, 4097u, 1u << 25, ~0u}) {
    EXPECT_EQ(refusal([&](ArenaHeader& header) { header.max_blocks = blocks; }), damaged) << blocks;
  }
  for (const std::uint64_t reserve : {std::uint64_t{0}, 2 * kMiB - 1, ~std::uint64_t{0}}) {
    EXPECT_EQ(refusal([&](ArenaHeader& header) { header.data_reserve = reserve; }), damaged);
  }
}

TEST_F(SegmentRefusal, RejectsUnknownStrategy) {
  EXPECT_EQ(refusal([](ArenaHeader& header) { header.strategy = static_cast<Strategy>(5); }),
            "unknown strategy");
}

TEST_F(SegmentRefusal, RejectsTruncatedFile) {
  const std::string shorter = "the file is too short";
  EXPECT_EQ(refusal(create_memfd("empty")), shorter);
  const auto nothing = [](ArenaHeader&) {};
  EXPECT_EQ(refusal(forged(nothing, kSmall.data() - 1)), shorter);
  EXPECT_EQ(refusal([](ArenaHeader& header) { header.max_blocks = 1u << 16; }), shorter)
      << "for so many blocks";
}

TEST_F(SegmentRefusal, RejectsUnsealedFile) {
  const auto good = Segment::create(id_, 7, 0, 1, Strategy::file_descriptor, kSmall);
  Fd file = create_memfd("unsealed");
  set_file_size(file, kSmall.data());
  {
    const Mapping page = Mapping::of_file(file, 0, page_size(), Access::read_write);
    std::memcpy(page.data(), &good->header(), sizeof(ArenaHeader));
  }
  EXPECT_EQ(refusal(std::move(file)), "the memfd is not sealed against shrinking");
}

TEST_F(SegmentRefusal, RejectsDescriptorsOfNonFiles) {
  const std::string no_file = "not a regular file";
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(refusal(Fd(ends[0])), no_file);
  EXPECT_EQ(refusal(Fd(ends[1])), no_file);
  EXPECT_EQ(refusal(Fd(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC))), no_file);
  EXPECT_EQ(refusal(Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC))), no_file);
  EXPECT_EQ(refusal(socket_pair().first), no_file);
  EXPECT_THROW(static_cast<void>(Segment::open(id_, 7, Fd())), OsError);
}

TEST_F(SegmentRefusal, RejectsFileOfOtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change the owner of a file";
  Fd file = forged([](ArenaHeader&) {});
  ASSERT_EQ(::fchown(file.get(), 1, 1), 0);
  EXPECT_EQ(refusal(std::move(file)), "the file belongs to another user");
}

TEST_F(SegmentRefusal, RejectsNamedObjectOfOtherArena) {
  const std::string name = arena_name(id_, 8);
  const auto other = Segment::create(id_, 7, 0, 1, Strategy::file_system, kSmall);
  ASSERT_EQ(std::rename(("/dev/shm/" + arena_name(id_, 7)).c_str(), ("/dev/shm/" + name).c_str()),
            0);
  EXPECT_THROW(static_cast<void>(Segment::open_named(id_, 8)), SessionError);
  EXPECT_TRUE(unlink_shm(name));
}

}  // namespace
}  // namespace shmtensor
