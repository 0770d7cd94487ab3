// Runs pools of ports/threads under ThreadSanitizer, with threads that are late between any two steps of the protocol
// (NACRE_DELAYS). Each step has its own tiles, a context on the caller's stack, and plain numbers that only the
// protocol orders. The numbers show a tile that ran twice, not at all, late, or with another step's task.
//
//   c++ -std=c++20 -fsanitize=thread -DNACRE_DELAYS -I. tests/claims/threads_stress.cc ports/threads/threads.cc
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "ports/threads/sleep.h"
#include "ports/threads/threads.h"

namespace {

uint64_t next(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}
thread_local uint64_t delays = 0;
std::atomic<uint64_t> seeds = 1;

}  // namespace

void nacre::delay() {
  if (delays == 0) delays = seeds.fetch_add(1) * 77777 + 1;
  const uint64_t r = next(delays) % 256;
  if (r < 24) sched_yield();
  else if (r == 24) usleep(useconds_t(next(delays) % 300));
}

namespace {

std::atomic<uint64_t> elsewhere = 0;  // tiles that other threads of a pool ran

struct Step {
  int tiles, workers;
  std::vector<uint32_t> numbers;  // one for each tile, plain
  std::vector<uint32_t> scratch;  // one for each worker, plain: two threads with one number would race
  uint32_t word;
};

void run_tile(void* context, int tile, int worker) {
  Step& step = *static_cast<Step*>(context);
  if (worker < 0 || worker >= step.workers || tile < 0 || tile >= step.tiles) std::abort();
  ++step.scratch[size_t(worker)];
  step.numbers[size_t(tile)] += step.word ^ uint32_t(tile);
  if (worker != 0) ++elsewhere;
}

// Runs a step. Returns whether every tile ran once.
bool run_step(const nacre::Workers& workers, int tiles, uint32_t word) {
  Step step = {tiles, workers.count, {}, {}, word};
  step.numbers.resize(size_t(step.tiles)), step.scratch.resize(size_t(step.workers));
  workers.run(workers.context, &run_tile, &step, step.tiles);
  uint32_t ran = 0;
  for (int tile = 0; tile < step.tiles; ++tile)
    if (step.numbers[size_t(tile)] != (step.word ^ uint32_t(tile))) return false;
  for (const uint32_t run : step.scratch) ran += run;
  return ran == uint32_t(step.tiles);
}
// Runs `count` steps with random numbers of tiles. Returns whether every tile of each ran once.
bool run_steps(const nacre::Workers& workers, int count, uint64_t seed) {
  for (int i = 0; i < count; ++i) {
    const int tiles = 1 + int(next(seed) % 19);
    if (!run_step(workers, tiles, uint32_t(next(seed)))) return false;
    if (next(seed) % 64 == 0) usleep(useconds_t(next(seed) % 400));  // long enough that threads sleep
  }
  return true;
}

// Checks that a process forked from one with a pool runs alone, and ends without waiting.
bool forked(const nacre::ThreadPool& pool) {
  const pid_t child = fork();
  if (child == 0) _exit(run_steps(*pool.workers(), 50, 5) ? 0 : 1);
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
  int pools = 0, steps = 0, forks = 0;
  bool good = true;
  uint64_t seed = 9;
  for (int round = 0; round < rounds && good; ++round) {
    const int threads = 2 + int(next(seed) % 7);
    const nacre::ThreadSettings settings = {.spin_us = uint32_t(next(seed) % 3 * 20),
                                            .wake_after_us = 0,
                                            .most_rest_us = uint32_t(next(seed) % 4 / 3 * 300)};
    nacre::ThreadPool pool(threads, settings), other(2 + int(next(seed) % 3), settings);
    pools += 2;
    if (round == 0) good = run_step(*pool.workers(), 70'001, 3);         // more than the pool publishes at once
    if (round == 1) good = good && run_steps(*pool.workers(), 6000, 4);  // trials of small steps come and go
    const int count = next(seed) % 8 == 0 ? 0 : 150;                     // 0: destroyed at once
    good = good && run_steps(*pool.workers(), count, next(seed)) && run_steps(*other.workers(), count, next(seed));
    bool also = true;  // the result of the second caller, who shares `pool` with the first
    std::thread second([&] { also = run_steps(*pool.workers(), count, 11); });
    good = run_steps(*pool.workers(), count, 12) && run_steps(*other.workers(), count, 13) && good;
    second.join();
    good = good && also;
    steps += 5 * count;
#ifndef NACRE_NO_FORK
    good = good && forked(pool);
    ++forks;
#endif
  }
  std::printf("%d pools, %d steps, %llu tiles by their threads, %d forks: %s\n", pools, steps,
              static_cast<unsigned long long>(elsewhere.load()), forks,
              good ? "every tile ran once" : "a tile did not");
  return good && elsewhere.load() > 0 ? 0 : 1;
}
