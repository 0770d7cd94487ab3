// Interrupt: while it lives, SIGINT, SIGTERM and SIGHUP are only recorded. The work under way ends and its result is
// kept, within a second of processor time. The end of that second, or a second signal other than SIGHUP, ends the
// process at once: then the checkpoint saved last remains.
#pragma once

#include <signal.h>
#include <time.h>

#include <iterator>

#include "tools/base/error.h"
#include "tools/files/atomic_file.h"

namespace nacre::tools {

class Interrupt {
 public:
  explicit Interrupt(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = kSignals[0];
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer_) != 0)
      throw Error(kFailed, "Ctrl-C", "this machine gives no timer of the processor's time");
    struct sigaction action = {};
    action.sa_handler = receive;
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      // nohup starts a process that ignores SIGHUP, so that it outlives its terminal
      const bool outlives = i == kHangUp && before_[i].sa_handler == SIG_IGN;
      if (!outlives) sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~Interrupt() {
    if (!wanted_) return;
    timer_delete(timer_);
    if (received_ == SIGHUP) before_[kHangUp].sa_handler = SIG_IGN;  // a second SIGHUP may still come
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static int received() { return received_; }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  static constexpr size_t kHangUp = 2;

  // Calls only functions that POSIX lists as async-signal-safe. The timer's signal acts as a second one. When a
  // terminal ends, the shell and the system each send SIGHUP, so a second SIGHUP changes nothing.
  static void receive(int signal) {
    if (signal == SIGHUP && received_ != 0) return;
    if (received_ != 0) return end_by_signal(received_);
    received_ = signal;
    itimerspec second = {};
    second.it_value.tv_sec = 1;
    timer_settime(timer_, 0, &second, nullptr);
  }

  static inline volatile sig_atomic_t received_ = 0;
  static inline timer_t timer_ = {};
  bool wanted_;
  struct sigaction before_[std::size(kSignals)] = {};
};

}  // namespace nacre::tools
