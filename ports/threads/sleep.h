// Lets a thread sleep until a word changes, and measures how long it has waited. On Linux the word is a futex.
// Elsewhere std::atomic's own wait is used, which may spin first.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace nacre {

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == sizeof(uint32_t) && Word::is_always_lock_free);

// Returns when `word` was woken or is not `value`, and sometimes without a cause.
inline void sleep_while(Word& word, uint32_t value) {
#if defined(__linux__) && defined(SYS_futex)
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
#else
  word.wait(value);
#endif
}
// Wakes one sleeping thread. `word` must have changed before.
inline void wake_one(Word& word) {
#if defined(__linux__) && defined(SYS_futex)
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#else
  word.notify_one();
#endif
}

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Lets the core's other threads run for a moment.
inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Placed between two steps of the pool's protocol. A test compiled with NACRE_DELAYS delays threads there.
#ifdef NACRE_DELAYS
void delay();
#else
inline void delay() {}
#endif

// Returns whether `ready` is true in one of a few looks, without reading the clock.
template <class Ready>
bool looks(const Ready& ready) {
  for (int i = 0; i < 16; ++i) {
    if (ready()) return true;
    pause();
  }
  return ready();
}

// Returns whether `ready` became true within `ns`. Reads the clock once in 32 looks.
template <class Ready>
bool spin(int64_t ns, const Ready& ready) {
  if (ready()) return true;
  if (ns <= 0) return false;
  for (const int64_t end = now_ns() + ns;;) {
    for (int i = 0; i < 32; ++i) {
      pause();
      if (ready()) return true;
    }
    if (now_ns() >= end) return false;
  }
}

}  // namespace nacre
