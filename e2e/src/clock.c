// Moves the wall clock of a process by LIMPET_E2E_CLOCK seconds, when this is preloaded (LD_PRELOAD). The monotonic
// clock stays, as when a node's clock is wrong.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset;

__attribute__((constructor)) static void read_offset(void) {
  const char *text = getenv("LIMPET_E2E_CLOCK");
  offset = text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    now->tv_sec += offset;
  }
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec precise;
  int result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

time_t time(time_t *also) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (also) {
    *also = now.tv_sec;
  }
  return now.tv_sec;
}
