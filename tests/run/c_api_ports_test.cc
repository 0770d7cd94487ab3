// Tests fast kernels and threads from C: they give the results of the ports' C++ functions, and refuse invalid
// arguments.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "engine/nacre_c.h"
#include "ports/arm/arm.h"
#include "ports/arm/arm_c.h"
#include "ports/threads/threads_c.h"
#include "ports/x86/x86.h"
#include "ports/x86/x86_c.h"
#include "tests/sanitized.h"
#ifdef NACRE_MPI
#include "ports/mpi/nacre_mpi.h"
#endif

namespace nacre {
namespace {

using test::sanitized;

TEST(c_api_ports, kernels_are_those_of_the_tiers_that_run_here) {
  int here = 0;
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i) {
    const auto tier = x86::Tier(i);
    const void* const kernels = nacre_x86_kernels(x86::name(tier));
    EXPECT_EQ(kernels, x86::runs_here(tier) ? static_cast<const void*>(&x86::kernels(tier)) : nullptr);
    here += kernels != nullptr ? 1 : 0;
  }
  for (uint32_t i = 0; i < uint32_t(arm::Tier::kCount); ++i) {
    const auto tier = arm::Tier(i);
    const void* const kernels = nacre_arm_kernels(arm::name(tier));
    EXPECT_EQ(kernels, arm::runs_here(tier) ? static_cast<const void*>(&arm::kernels(tier)) : nullptr);
    here += kernels != nullptr ? 1 : 0;
  }
  EXPECT_GT(here, 0);
  EXPECT_EQ(nacre_x86_best() == nullptr, x86::best() == x86::Tier::kCount);
  EXPECT_EQ(nacre_arm_best() == nullptr, arm::best() == arm::Tier::kCount);
  for (const char* none : {static_cast<const char*>(nullptr), "", "avx3", "AVX2"}) {
    EXPECT_EQ(nacre_x86_kernels(none), nullptr);
    EXPECT_EQ(nacre_arm_kernels(none), nullptr);
  }
}

TEST(c_api_ports, workers_are_the_threads_of_a_pool) {
  nacre_thread_pool* const pool = nacre_thread_pool_open(3);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(nacre_thread_pool_count(pool), 3);
  const nacre_workers* const workers = nacre_thread_pool_workers(pool);
  ASSERT_NE(workers, nullptr);
  EXPECT_EQ(workers->count, 3);
  struct {
    std::atomic<int> calls[7] = {};
    std::atomic<bool> outside = false;
  } seen;
  workers->run(
      workers->context,
      [](void* context, int tile, int worker) {
        auto& all = *static_cast<decltype(seen)*>(context);
        ++all.calls[tile];
        if (worker < 0 || worker >= 3) all.outside = true;
      },
      &seen, 7);
  for (const std::atomic<int>& calls : seen.calls) EXPECT_EQ(calls, 1);
  EXPECT_FALSE(seen.outside);
  nacre_thread_pool_close(pool);
}

TEST(c_api_ports, a_pool_with_settings_says_how_many_threads_began) {
  int started = -1;
  const nacre_thread_settings settings = {sizeof settings, 0, 0, 0};
  nacre_thread_pool* const pool = nacre_thread_pool_open_with(4, &settings, &started);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(started, 4);
  nacre_thread_pool_close(pool);
  const nacre_thread_settings first_alone = {2 * sizeof(uint32_t), 10, ~0u, ~0u};  // the others are behind its size
  nacre_thread_pool* const other = nacre_thread_pool_open_with(2, &first_alone, nullptr);
  EXPECT_EQ(nacre_thread_pool_count(other), 2);
  nacre_thread_pool_close(other);
  EXPECT_EQ(nacre_thread_pool_open_with(-1, nullptr, &started), nullptr);
  EXPECT_EQ(started, 0);
  EXPECT_EQ(nacre_thread_pool_open_with(100'000'000, nullptr, &started), nullptr);
  EXPECT_EQ(started, 1024);
}

TEST(c_api_ports, a_process_that_fork_made_runs_alone_and_waits_for_no_thread) {
  nacre_thread_pool* const pool = nacre_thread_pool_open(3);
  ASSERT_NE(pool, nullptr);
  const nacre_workers* const workers = nacre_thread_pool_workers(pool);
  const auto add = [](void* sum, int tile, int) { *static_cast<std::atomic<int>*>(sum) += tile; };
  std::atomic<int> sum = 0;
  workers->run(workers->context, add, &sum, 5);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> mine = 0;
    workers->run(workers->context, add, &mine, 9);
    nacre_thread_pool_close(pool);
    _exit(mine == 36 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  nacre_thread_pool_close(pool);
}

TEST(c_api_ports, threads_that_the_system_refuses_are_counted_and_none_is_left) {
  if (sanitized()) GTEST_SKIP() << "a sanitized program takes terabytes of addresses";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit least = {512u << 20, 512u << 20};  // address space; this program uses some of it already
    setrlimit(RLIMIT_AS, &least);
    int started = 0;
    const bool refused = nacre_thread_pool_open_with(256, nullptr, &started) == nullptr;
    _exit(refused && started >= 1 && started < 256 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(c_api_ports, one_thread_needs_no_workers_and_no_pool_has_none) {
  nacre_thread_pool* const one = nacre_thread_pool_open(1);
  EXPECT_EQ(nacre_thread_pool_count(one), 1);
  EXPECT_EQ(nacre_thread_pool_workers(one), nullptr);
  nacre_thread_pool_close(one);
  EXPECT_EQ(nacre_thread_pool_open(-1), nullptr);
  EXPECT_EQ(nacre_thread_pool_count(nullptr), 0);
  EXPECT_EQ(nacre_thread_pool_workers(nullptr), nullptr);
  nacre_thread_pool_close(nullptr);
}

#ifdef NACRE_MPI
TEST(c_api_ports, no_ranks_are_an_answer_and_no_crash) {
  nacre_trainer trainer = {};
  nacre_report report = {};
  EXPECT_NE(nacre_mpi_problem(nullptr), nullptr);
  EXPECT_EQ(nacre_mpi_rank(nullptr), 0u);
  EXPECT_EQ(nacre_mpi_count(nullptr), 0u);
  EXPECT_EQ(nacre_mpi_add(nullptr, &trainer), 0);
  EXPECT_EQ(nacre_mpi_fail(nullptr, "why"), 0);
  EXPECT_EQ(nacre_mpi_finish(nullptr, &trainer, 1), 0);
  EXPECT_EQ(nacre_mpi_sent_bytes(nullptr), 0u);
  nacre_mpi_end_step(nullptr, nullptr, nullptr, &report);
  nacre_mpi_close(nullptr);
}
#endif

}  // namespace
}  // namespace nacre
