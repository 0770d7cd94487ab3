#include "ports/threads/threads.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#endif

#include "ports/threads/sleep.h"

namespace nacre {

// The protocol. A step is `tiles` calls of one task. The caller (worker 0) and the threads (1 .. count - 1) each
// have a run of its tiles, claim their own first, in order, and then those that the others have not begun:
//
//   publish    the caller writes step_, unfinished_ = tiles and left_[w], the tiles of each run without the caller's
//              first, which it has claimed itself; then posted_ + 1
//   claim      left_[w] > 0 becomes left_[w] - 1 (compare and exchange)
//   finish     unfinished_ becomes unfinished_ - 1 when a tile's task has returned
//   the end    the caller has found every left_[w] = 0, and waits until unfinished_ = 0
//
// 1. The caller waits for tiles that were claimed, and a claim is followed at once by its task: never for a thread that
//    sleeps, was not scheduled, or does not exist (a process that fork made).
// 2. step_ is read after a claim alone, and the caller writes it only while no claimed tile is unfinished and no tile
//    is left. A thread that read left_[w] in an earlier step and exchanges it in a later one has claimed a tile of the
//    later step, and reads that step's task: equal numbers of different steps (ABA) do no harm. So a claim needs no
//    counter of steps beside left_[w]; posted_ is one, but only tells threads that there is something to claim.
// 3. The exchange acquires what the caller released with left_[w] (exchanges of others continue its release sequence),
//    so step_ is seen whole. A finish releases what its task wrote; the caller acquires it with unfinished_ = 0.
// 4. The task's context may lie on the caller's stack: after its last finish a thread touches the pool alone.
// 5. No wake-up is lost. A thread writes kAsleep to its state, adds 1 to asleep_, then looks at posted_ and stops_
//    again; the caller writes posted_ (or stops_), then looks at asleep_. All four are sequentially consistent, so one
//    of them sees the other's. Who changes a state from kAsleep to kAwake, the caller or the thread, takes the 1 back.
// 6. The caller sleeps with kCallerSleeps in unfinished_ itself: the finish that leaves nothing but the flag wakes it.
class ThreadPool::Crew {
 public:
  Crew(int threads, const ThreadSettings& settings)
      : settings_(settings), process_(getpid()), count_(threads - 1), workers_(threads),
        hands_(new Hand[size_t(threads - 1)]), more_(threads > kNear ? new Word[size_t(threads)]() : nullptr),
        left_(more_ ? more_.get() : near_) {}

  // Starts the threads. Returns how many run, with the caller's.
  int start() {
    sigset_t all, before;  // signals are for the application's threads, but for those of a fault in this one
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int started = 0;
    for (; started < count_; ++started) {
      Hand& hand = hands_[started];
      hand.crew = this, hand.worker = started + 1;
      const auto serve = [](void* h) -> void* {
        static_cast<Hand*>(h)->crew->serve(*static_cast<Hand*>(h));
        return nullptr;
      };
      if (pthread_create(&hand.thread, nullptr, serve, &hand) != 0) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    count_ = started;
    return started + 1;
  }

  ~Crew() {
    if (process_ != getpid()) return;
    stops_.store(true);
    for (int i = 0; i < count_; ++i) rouse(hands_[i]);
    for (int i = 0; i < count_; ++i) pthread_join(hands_[i].thread, nullptr);
  }

  static void run(void* crew, void (*task)(void* context, int tile, int worker), void* context, int tiles) {
    Crew& c = *static_cast<Crew*>(crew);
    if (tiles < 2 || c.busy_.exchange(true, std::memory_order_acquire)) {
      for (int tile = 0; tile < tiles; ++tile) task(context, tile, 0);
      return;
    }
    c.share({task, context, tiles});
    c.busy_.store(false, std::memory_order_release);
  }

 private:
  enum State : uint32_t { kAwake, kAsleep };
  static constexpr uint32_t kCallerSleeps = 1u << 31;
  // In ns: a longer pause ends a burst of work; a tile is late after this; the shortest rest; rests start from the
  // shortest again after this time without a late tile.
  static constexpr int64_t kBurstGap = 1'000'000, kLate = 400'000, kLeastRest = 1'000'000, kCalm = 100'000'000;
  static constexpr int64_t kQuiet = 10'000'000, kLook = 1'000'000;  // ns; rests() uses them
  static constexpr int64_t kSlow = 500'000;  // ns; a wake-up that takes longer shows a processor with other work

  struct Step {
    void (*task)(void* context, int tile, int worker);
    void* context;
    int tiles;
  };
  struct alignas(64) Hand {  // one thread
    Word state = kAwake;
    std::atomic<int64_t> woken = 0;  // ns: when the caller woke it
    int worker = 0;
    Crew* crew = nullptr;
    pthread_t thread = {};
  };

  // The run of worker w begins at its part of the tiles. `run` is the run that was last claimed from; it is looked at
  // first.
  int first_of(int w) const { return int(int64_t{step_.tiles} * w / workers_); }
  bool claim(int* run, int* tile) {
    for (int i = 0, w = *run; i < workers_; ++i, w = w + 1 < workers_ ? w + 1 : 0) {
      uint32_t left = left_[w].load();
      while (left != 0) {
        delay();
        if (left_[w].compare_exchange_weak(left, left - 1)) {
          *run = w;
          *tile = first_of(w + 1) - int(left);
          return true;
        }
      }
    }
    return false;
  }

  // ---- The caller

  int64_t wake_after() const { return int64_t{1000} * settings_.wake_after_us; }
  // While a rest lasts, the caller runs alone, because other work has the processors. A sign of such work is that the
  // caller waited longer for a begun tile than it worked itself, or that a thread came late after it was woken. Signs
  // in a row double the rest. A late thread is a sign if it was woken in this burst and after the last sign; threads
  // woken together are one sign.
  void share(const Step& step) {
    const int64_t begun = now_ns();
    if (begun - ended_ > kBurstGap) {
      long_burst_ = ended_ - burst_ > wake_after();
      burst_ = begun;
    }
    const int64_t late = late_wake_.load(std::memory_order_relaxed);
    if (late > rest_until_ - rest_ && late >= burst_) rest(begun);  // rest_until_ - rest_: when the last sign came
    if (resting_ && rests(begun)) {
      for (int tile = 0; tile < step.tiles; ++tile) step.task(step.context, tile, 0);
      ended_ = now_ns();
      return;
    }
    step_ = step;
    unfinished_.store(uint32_t(step.tiles), std::memory_order_relaxed);
    for (int w = 0; w < workers_; ++w)
      left_[w].store(uint32_t(std::max(1, first_of(w + 1)) - std::max(1, first_of(w))), std::memory_order_release);
    delay();
    posted_.fetch_add(1);
    if (asleep_.load() > 0 && (long_burst_ || begun - burst_ >= wake_after())) rouse_for(step.tiles - 1);
    step.task(step.context, 0, 0);
    uint32_t mine = 1;
    for (int run = 0, tile; claim(&run, &tile); ++mine) step.task(step.context, tile, 0);
    finish_all(mine, begun);
  }

  void finish_all(uint32_t mine, int64_t begun) {
    const int64_t worked = now_ns() - begun;
    delay();
    if (unfinished_.fetch_sub(mine, std::memory_order_acq_rel) != mine) {
      const auto done = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
      if (!spin(int64_t{1000} * settings_.spin_us, done)) {
        uint32_t value = unfinished_.fetch_or(kCallerSleeps, std::memory_order_acq_rel) | kCallerSleeps;
        for (; value != kCallerSleeps; value = unfinished_.load(std::memory_order_acquire))
          sleep_while(unfinished_, value);
      }
    }
    ended_ = now_ns();
    if (ended_ - begun - worked > kLate + worked) rest(ended_);
  }
  void rest(int64_t now) {
    const bool again = now - rest_until_ < kCalm;
    rest_ = std::min(int64_t{1000} * settings_.most_rest_us, again ? 2 * rest_ : kLeastRest);
    rest_until_ = now + rest_;
    resting_ = rest_ > 0;
    looked_ = quiet_ = now;
    look_at_switches();
  }
  // Returns whether a rest goes on. It does while the caller too loses its processor now and then, because other work
  // is then still there.
  bool rests(int64_t now) {
    if (now - looked_ >= kLook) {
      looked_ = now;
      if (look_at_switches()) quiet_ = now;
    }
    return resting_ = now < rest_until_ || now - quiet_ < kQuiet;
  }
  // Returns whether the system took the processor from this thread since the last look; false if another thread
  // looked before.
  bool look_at_switches() {
    const pthread_t self = pthread_self();
    const bool same = pthread_equal(self, looker_) != 0;
    const long before = switches_;
    looker_ = self, switches_ = switches_of_thread();
    return same && switches_ != before;
  }
  // Counts how often the system took the processor from this thread, on systems that tell.
  static long switches_of_thread() {
#if defined(__linux__) && defined(RUSAGE_THREAD)
    rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_nivcsw;
#endif
    return 0;
  }

  // Wakes as many threads as `tiles` keep busy.
  void rouse_for(int tiles) {
    for (int i = 0; i < count_ && tiles > 0; ++i) tiles -= rouse(hands_[i]) ? 1 : 0;
  }
  // Returns whether this changed the state.
  bool rouse(Hand& hand) {
    uint32_t asleep = kAsleep;
    if (hand.state.load() != kAsleep) return false;
    hand.woken.store(now_ns(), std::memory_order_relaxed);
    if (!hand.state.compare_exchange_strong(asleep, kAwake)) return false;
    asleep_.fetch_sub(1);
    wake_one(hand.state);
    return true;
  }

  // ---- A thread

  void serve(Hand& hand) {
    while (!stops_.load(std::memory_order_relaxed)) {
      const uint32_t seen = posted_.load();
      for (int run = hand.worker, tile; claim(&run, &tile);) {
        delay();
        step_.task(step_.context, tile, hand.worker);
        delay();
        if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == (kCallerSleeps | 1)) wake_one(unfinished_);
      }
      const auto something = [&] {
        return posted_.load(std::memory_order_relaxed) != seen || stops_.load(std::memory_order_relaxed);
      };
      if (!spin(int64_t{1000} * settings_.spin_us, something)) doze(hand, seen);
    }
  }
  void doze(Hand& hand, uint32_t seen) {
    delay();
    hand.state.store(kAsleep);
    delay();
    asleep_.fetch_add(1);
    delay();
    if (posted_.load() == seen && !stops_.load()) {
      while (hand.state.load() == kAsleep) sleep_while(hand.state, kAsleep);
      const int64_t woken = hand.woken.load(std::memory_order_relaxed);
      if (now_ns() - woken > kSlow) late_wake_.store(woken, std::memory_order_relaxed);
      return;
    }
    uint32_t asleep = kAsleep;
    if (hand.state.compare_exchange_strong(asleep, kAwake)) asleep_.fetch_sub(1);
  }

  const ThreadSettings settings_;
  const long process_;  // the process that has the threads
  int count_;           // threads, without the caller
  const int workers_;   // threads, with the caller
  const std::unique_ptr<Hand[]> hands_;
  const std::unique_ptr<Word[]> more_;
  Word* const left_;                // tiles left for each worker: near_ or more_
  std::atomic<bool> busy_ = false;  // a caller is sharing a step
  // Only the caller that holds `busy_` uses these; in ns.
  int64_t burst_ = 0, ended_ = 0, rest_ = 0, rest_until_ = -kCalm, looked_ = 0, quiet_ = 0;
  long switches_ = 0;
  pthread_t looker_ = {};
  bool resting_ = false, long_burst_ = false;
  alignas(64) Step step_ = {};
  // These words share a cache line with the step, so a thread that looks for work has all that it needs.
  static constexpr int kNear = 8;
  Word posted_ = 0;
  Word near_[kNear] = {};
  alignas(64) Word unfinished_ = 0;
  alignas(64) Word asleep_ = 0;  // threads whose state is kAsleep
  std::atomic<bool> stops_ = false;
  std::atomic<int64_t> late_wake_ = 0;  // ns: when the last late thread was woken; 0: none was late
};

namespace {

// A larger number is a mistake, and the system would take minutes to refuse it.
constexpr int kMostThreads = 1024;

int threads_of_process() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, int(std::thread::hardware_concurrency()));
}

}  // namespace

ThreadsRefused::ThreadsRefused(int some, int all)
    : std::runtime_error("only " + std::to_string(some) + " of " + std::to_string(all) + " threads could be started"),
      started(some), asked(all) {}

ThreadPool::ThreadPool(int threads, const ThreadSettings& settings) : workers_{} {
  if (threads == 0) threads = threads_of_process();
  if (threads > kMostThreads) throw ThreadsRefused(kMostThreads, threads);
  // A step of 120,000 multiply-accumulates takes about 2 us with AVX2; sharing a step costs 0.6 us.
  workers_ = {nullptr, threads, &Crew::run, 120'000};
  if (threads < 2) return;
  crew_ = std::make_unique<Crew>(threads, settings);
  workers_.context = crew_.get();
  if (const int started = crew_->start(); started < threads) throw ThreadsRefused(started, threads);
}

ThreadPool::~ThreadPool() = default;

}  // namespace nacre
