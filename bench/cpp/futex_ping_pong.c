// The time of a wake-up by the kernel alone: two processes answer each other through futexes and never spin.
//
// futex-ping-pong PROCESSOR OTHER TRIPS PAUSE: pinned to these two processors, or not pinned (-1). Before each
// round trip the first process sleeps for PAUSE microseconds. Prints the median in nanoseconds.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct Words {
  _Alignas(64) _Atomic uint32_t there;
  _Alignas(64) _Atomic uint32_t back;
};

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void pin(int processor) {
  cpu_set_t only;
  if (processor < 0) return;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  if (sched_setaffinity(0, sizeof only, &only) != 0) fail("sched_setaffinity");
}

static void set(_Atomic uint32_t* word, uint32_t value) {
  atomic_store(word, value);
  syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void wait_for(_Atomic uint32_t* word, uint32_t value) {
  while (atomic_load(word) != value) syscall(SYS_futex, word, FUTEX_WAIT, value - 1, NULL, NULL, 0);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int compare(const void* left, const void* right) {
  const int64_t a = *(const int64_t*)left, b = *(const int64_t*)right;
  return (a > b) - (a < b);
}

int main(int count, char** words) {
  if (count != 5) return 2;
  const uint32_t trips = (uint32_t)atoi(words[3]);
  const struct timespec pause = {.tv_nsec = atol(words[4]) * 1000};
  struct Words* shared =
      mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int64_t* times = calloc(trips, sizeof *times);
  if (shared == MAP_FAILED || times == NULL) fail("mmap");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(atoi(words[2]));
    for (uint32_t trip = 1; trip <= trips; ++trip) {
      wait_for(&shared->there, trip);
      set(&shared->back, trip);
    }
    return 0;
  }
  pin(atoi(words[1]));
  for (uint32_t trip = 1; trip <= trips; ++trip) {
    if (pause.tv_nsec != 0) nanosleep(&pause, NULL);
    const int64_t start = now();
    set(&shared->there, trip);
    wait_for(&shared->back, trip);
    times[trip - 1] = now() - start;
  }
  qsort(times, trips, sizeof *times, compare);
  printf("%lld\n", (long long)times[trips / 2]);
  return 0;
}
