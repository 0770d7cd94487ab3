// While a HeldPipeSignal(true) lives, this thread gets EPIPE and no SIGPIPE when it writes to a pipe whose reader has
// ended. A HeldPipeSignal(false) changes nothing.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

namespace nacre::tools {

class HeldPipeSignal {
 public:
  explicit HeldPipeSignal(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~HeldPipeSignal() {
    if (!wanted_) return;
    constexpr timespec kNow = {};
    while (sigismember(&before_, SIGPIPE) == 0 && sigtimedwait(&pipe_, nullptr, &kNow) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  HeldPipeSignal(const HeldPipeSignal&) = delete;
  HeldPipeSignal& operator=(const HeldPipeSignal&) = delete;

 private:
  bool wanted_;
  sigset_t pipe_ = {}, before_ = {};
};

}  // namespace nacre::tools
