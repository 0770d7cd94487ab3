#include "ports/threads/threads.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
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
// have a run of its tiles, claim their own first, in order, and then those that the others have not begun. Steps have
// numbers that only grow. Each thread has a line of the cache with two words:
//
//   publish    the caller writes step_, then posted_ = {step, tiles}; it has claimed its own first tile with that
//   claim      claimed of run w becomes {step, n + 1} from {step, n}, {step, 1} from an older step (compare, exchange)
//   finish     finished of the thread that ran the tile becomes {step, tiles that it has run}
//   the end    the caller has found all tiles claimed, and waits until the tiles of all finished words and its own are
//              those of the step
//
// A step that goes well moves two lines from one core to another: the caller's with posted_ and step_, which no thread
// writes, and the thread's, which the caller only reads. The lines that a task reads come on top.
//
// 1. The caller waits for tiles that were claimed, and a claim is followed at once by its task: never for a thread that
//    sleeps, was not scheduled, or does not exist (a process that fork made).
// 2. A claim for a step succeeds only while that step lacks the tile, because the step's end needs a claim of every
//    tile, and each leaves the step's number in the word. So a thread that is late by steps claims nothing of an old
//    step, and reads step_ only while the caller waits for its claim.
// 3. posted_ releases step_ to whoever reads its number. A finish releases what its task wrote, and the thread's use of
//    step_; the caller acquires both.
// 4. The task's context may lie on the caller's stack: behind its last finish a thread touches the pool alone.
// 5. A thread that falls asleep while a step is published may be missed: posted_ is no fence, which would cost the
//    caller a transfer. Nobody waits for that thread. The caller looks for sleeping threads again behind its first
//    tile, and in each later step.
// 6. The caller that waits long writes sleeps_, looks at the finished words again, and sleeps. A thread writes its
//    finished word, then looks at sleeps_. All are sequentially consistent, so one of them sees the other's.
class ThreadPool::Crew {
 public:
  Crew(int threads, const ThreadSettings& settings)
      : settings_(settings), process_(getpid()), count_(threads - 1), workers_(threads),
        hands_(new Hand[size_t(threads)]) {}

  // Starts the threads. Returns how many run, with the caller's.
  int start() {
    sigset_t all, before;  // signals are for the application's threads, but for those of a fault in this one
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGPROF}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int started = 0;
    for (; started < count_; ++started) {
      Hand& hand = hands_[started + 1];
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
    for (int i = 1; i <= count_; ++i) rouse(hands_[i]);
    for (int i = 1; i <= count_; ++i) pthread_join(hands_[i].thread, nullptr);
  }

  static void run(void* crew, void (*task)(void* context, int tile, int worker), void* context, int tiles) {
    Crew& c = *static_cast<Crew*>(crew);
    if (tiles < 2 || c.busy_.exchange(true, std::memory_order_acquire)) {
      for (int tile = 0; tile < tiles; ++tile) task(context, tile, 0);
      return;
    }
    for (int first = 0; first < tiles; first += kMostTiles)
      c.share({task, context, first}, std::min(kMostTiles, tiles - first));
    c.busy_.store(false, std::memory_order_release);
  }

 private:
  enum State : uint32_t { kAwake, kAsleep };
  // In ns: a longer pause ends a burst of work; a tile is late after this; the shortest rest; rests start from the
  // shortest again after this time without a late tile.
  static constexpr int64_t kBurstGap = 1'000'000, kLate = 400'000, kLeastRest = 1'000'000, kCalm = 100'000'000;
  static constexpr int64_t kQuiet = 10'000'000, kLook = 1'000'000;  // ns; rests() uses them
  static constexpr int64_t kSmall = 30'000, kPause = 50'000, kLeastHold = 10'000'000, kMostHold = 500'000'000,
                           kMostAlone = 200'000'000;  // ns; of Trial
  static constexpr int kSteps = 256, kWindows = 6;    // of Trial
  static constexpr int64_t kSlow = 500'000;  // ns; a wake-up that takes longer shows a processor with other work

  struct Step {
    void (*task)(void* context, int tile, int worker);
    void* context;
    int first;  // added to the number of each tile
    void run(int tile, int worker) const { task(context, first + tile, worker); }
  };
  // A step's number and a number of its tiles, in one word. 48 bits number the steps of some years.
  using Count = std::atomic<uint64_t>;
  static constexpr int kTileBits = 16, kMostTiles = (1 << kTileBits) - 1;
  static uint64_t pack(uint64_t step, int tiles) { return step << kTileBits | uint64_t(tiles); }
  static uint64_t step_of(uint64_t word) { return word >> kTileBits; }
  static int tiles_of(uint64_t word) { return int(word & kMostTiles); }

  struct alignas(128) Hand {  // one worker; two lines, because processors fetch lines in pairs
    Count claimed = 0;        // of this worker's run
    Count finished = 0;       // tiles that this thread has run
    Word held = 0;            // written to keep the line in this core's cache
    alignas(64) Word state = kAwake;
    std::atomic<int64_t> woken = 0;  // ns: when the caller woke it
    int worker = 0;
    Crew* crew = nullptr;
    pthread_t thread = {};
  };

  using Task = void (*)(void* context, int tile, int worker);
  // How long steps of each task took when they were shared: a moving mean.
  struct SmallSteps {
    struct Kind {
      Task task = nullptr;
      int64_t ns = 0;

      bool small() const { return ns > 0 && ns < kSmall; }
      void took(int64_t now) { ns = ns == 0 ? now : ns + (now - ns) / 16; }
    } kinds[64];

    // Two tasks of one place take turns in it. Both then count as steps that were never shared, which are not small.
    Kind& kind_of(Task task) {
      Kind& kind = kinds[reinterpret_cast<uintptr_t>(task) / 16 % std::size(kinds)];
      if (kind.task != task) kind = {task, 0};
      return kind;
    }
  };
  // Finds out whether small steps pay on this machine as it is now: the cores of a virtual machine may share a cache in
  // one second and not in the next. Then a step of 4 us takes 10 us when two threads share it. Windows of equally many
  // steps are shared and alone in turns, up to three of each. The mode with the quickest window is kept for a
  // while, longer the more trials in a row said the same.
  struct Trial {
    bool alone = false, tries = true, kept = false;
    int steps = 0, window = -1;                                     // window -1 is not counted: threads wake up in it
    int64_t spent = 0, least[2] = {}, hold = kLeastHold, next = 0;  // ns

    void begin() { alone = false, tries = true, steps = 0, window = -1, spent = 0, least[0] = least[1] = 0; }
    // Counts a step, and the time since the step before it if that was in the same run of a program.
    void count(int64_t gap, int64_t begun, int64_t ended) {
      if (!tries) {
        if (ended >= next) begin();
        return;
      }
      spent += ended - begun + (gap < kPause ? gap : 0);
      if (++steps < kSteps) return;
      if (int64_t& mode = least[alone]; window >= 0 && (mode == 0 || spent < mode)) mode = spent;
      steps = 0, spent = 0;
      const bool pair = alone, clear = least[1] > least[0] + least[0] / 4 || least[1] < least[0] - least[0] / 4;
      alone = ++window % 2 != 0;
      if (!pair || (window < kWindows && !clear)) return;
      tries = false;
      alone = least[1] < least[0] - least[0] / 32;
      hold = alone == kept ? std::min(alone ? kMostAlone : kMostHold, 2 * hold) : kLeastHold;
      kept = alone, next = ended + hold;
    }
  };

  // The run of worker w begins at its part of the tiles; tile 0 is the caller's before anybody can claim it.
  int first_of(int w, int tiles) const { return std::max(1, int(int64_t{tiles} * w / workers_)); }
  // Claims a tile of the step that `posted` names. `run` is the run that was last claimed from; it is looked at first.
  bool claim(uint64_t posted, int* run, int* tile) {
    const int tiles = tiles_of(posted);
    for (int i = 0, w = *run; i < workers_; ++i, w = w + 1 < workers_ ? w + 1 : 0) {
      const int first = first_of(w, tiles), size = first_of(w + 1, tiles) - first;
      if (size == 0) continue;
      uint64_t word = hands_[w].claimed.load(std::memory_order_relaxed);
      while (step_of(word) <= step_of(posted)) {
        const int taken = step_of(word) == step_of(posted) ? tiles_of(word) : 0;
        if (taken == size) break;
        delay();
        if (hands_[w].claimed.compare_exchange_weak(word, pack(step_of(posted), taken + 1))) {
          *run = w;
          *tile = first + taken;
          return true;
        }
      }
    }
    return false;
  }

  // ---- The caller

  int64_t wake_after() const { return int64_t{1000} * settings_.wake_after_us; }
  // While a rest lasts, the caller runs alone, because other work has the processors. A sign of such work is a wait
  // for a begun tile that is kLate longer than the caller worked itself, or a thread that came kSlow after it was
  // woken. Signs in a row double the rest, up to most_rest_us. A late thread is a sign if it was woken in this burst
  // and after the last sign; threads woken together are one sign.
  void share(const Step& step, int tiles) {
    if (resting_ && rests(now_ns())) {
      for (int tile = 0; tile < tiles; ++tile) step.run(tile, 0);
      ended_ = now_ns();
      trial_.begin();
      return;
    }
    SmallSteps::Kind& kind = small_.kind_of(step.task);
    if (trial_.alone && kind.small()) {
      if (!trial_.tries && ++unclocked_ % 16 != 0) {  // two looks at the clock are a percent of such a step
        for (int tile = 0; tile < tiles; ++tile) step.run(tile, 0);
        return;
      }
      const int64_t begun = now_ns(), gap = begun - ended_;
      for (int tile = 0; tile < tiles; ++tile) step.run(tile, 0);
      ended_ = now_ns();
      if (ended_ - begun > workers_ * kSmall) kind.ns = 0;  // a large step of the same task
      trial_.count(gap, begun, ended_);
      return;
    }
    const int64_t before = ended_, begun = share_now(step, tiles);
    kind.took(ended_ - begun);
    if (kind.small()) trial_.count(begun - before, begun, ended_);
  }
  // Returns when the step was published.
  int64_t share_now(const Step& step, int tiles) {
    step_ = step;
    delay();
    const uint64_t posted = pack(step_of(posted_.load(std::memory_order_relaxed)) + 1, tiles);
    posted_.store(posted, std::memory_order_release);
    const int64_t begun = now_ns();  // while the line is on its way
    if (begun - ended_ > kBurstGap) {
      long_burst_ = (ended_ - burst_) * (long_burst_ ? workers_ : 1) > wake_after();  // of one thread's time
      burst_ = begun;
    }
    const int64_t late = late_wake_.load(std::memory_order_relaxed);
    if (late > rest_until_ - rest_ && late >= burst_) rest(begun);  // rest_until_ - rest_: when the last sign came
    const bool wakes = long_burst_ || begun - burst_ >= wake_after();
    if (wakes) rouse_for(tiles - 1);
    step.run(0, 0);
    if (tiles > 2 && (wakes || now_ns() - burst_ >= wake_after())) rouse_for(tiles - 2);
    int mine = 1;
    for (int run = 0, tile; claim(posted, &run, &tile); ++mine) step.run(tile, 0);
    finish_all(posted, mine, begun);
    return begun;
  }

  // Returns whether the threads have run all tiles of the step but the caller's.
  bool all_ran(uint64_t posted, int mine) const {
    int left = tiles_of(posted) - mine;
    for (int w = 1; w <= count_ && left > 0; ++w)
      if (const uint64_t word = hands_[w].finished.load(); step_of(word) == step_of(posted)) left -= tiles_of(word);
    return left == 0;
  }
  void finish_all(uint64_t posted, int mine, int64_t begun) {
    delay();
    const auto done = [&] { return all_ran(posted, mine); };
    if (looks(done)) {
      ended_ = now_ns();
      return;
    }
    const int64_t worked = now_ns() - begun;
    if (!spin(int64_t{1000} * settings_.spin_us, done)) {
      for (sleeps_.store(1); !done(); sleeps_.store(1)) sleep_while(sleeps_, 1);
      sleeps_.store(0);
    }
    ended_ = now_ns();
    // Slow cores are no sign: with them a step takes less time than the caller needs for it alone.
    const int64_t took = ended_ - begun, alone = worked * tiles_of(posted) / mine;
    if (took - worked > kLate + worked && took > alone) rest(ended_);
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
    if (asleep_.load() == 0) return;
    for (int i = 1; i <= count_ && tiles > 0; ++i) tiles -= rouse(hands_[i]) ? 1 : 0;
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
      const uint64_t seen = posted_.load();
      int mine = 0;
      for (int run = hand.worker, tile; claim(seen, &run, &tile);) {
        delay();
        step_.run(tile, hand.worker);
        delay();
        hand.finished.store(pack(step_of(seen), ++mine));
        if (sleeps_.load() != 0 && sleeps_.exchange(0) != 0) wake_one(sleeps_);
      }
      // The caller has read this thread's line. A write brings it back, so that the next claim need not wait for it.
      const auto something = [&] {
        hand.held.fetch_add(1, std::memory_order_relaxed);
        return posted_.load(std::memory_order_relaxed) != seen || stops_.load(std::memory_order_relaxed);
      };
      if (!spin(int64_t{1000} * settings_.spin_us, something)) doze(hand, seen);
    }
  }
  void doze(Hand& hand, uint64_t seen) {
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
  const long process_;                   // the process that has the threads
  int count_;                            // threads, without the caller
  const int workers_;                    // threads, with the caller
  const std::unique_ptr<Hand[]> hands_;  // of all workers; of hand 0 only `claimed` is used
  std::atomic<bool> busy_ = false;       // a caller is sharing a step
  // Only the caller that holds `busy_` uses these; in ns.
  int64_t burst_ = 0, ended_ = 0, rest_ = 0, rest_until_ = -kCalm, looked_ = 0, quiet_ = 0;
  long switches_ = 0;
  pthread_t looker_ = {};
  bool resting_ = false, long_burst_ = false;
  SmallSteps small_;
  Trial trial_;
  uint32_t unclocked_ = 0;         // steps that ran alone since the trial's end
  alignas(128) Count posted_ = 0;  // in one line with the step, so that a thread which sees it has all that it needs
  Step step_ = {};
  alignas(128) Word asleep_ = 0;  // threads whose state is kAsleep
  Word sleeps_ = 0;               // 1: the caller sleeps until this is 0
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
  if (threads < 0 || threads > kMostThreads) throw ThreadsRefused(threads < 0 ? 0 : kMostThreads, threads);
  // A step of 60,000 multiply-accumulates takes about 1 us with AVX2. To share it costs 0.2 us (Zen 4) to 0.5 us.
  workers_ = {nullptr, threads, &Crew::run, 60'000};
  if (threads < 2) return;
  crew_ = std::make_unique<Crew>(threads, settings);
  workers_.context = crew_.get();
  if (const int started = crew_->start(); started < threads) throw ThreadsRefused(started, threads);
}

ThreadPool::~ThreadPool() = default;

}  // namespace nacre
