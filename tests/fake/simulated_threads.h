// NACRE_THREADS of the simulated device (ops/independent.h): the thread that fake_driver.cc names.
#pragma once

#include <cstdint>

namespace nacre::fake {

struct SimulatedThread {
  uint32_t index, count;
};
extern thread_local SimulatedThread simulated_thread;

}  // namespace nacre::fake

#define NACRE_THREAD {::nacre::fake::simulated_thread.index, ::nacre::fake::simulated_thread.count}
#define NACRE_RAISE(at, v) (*(at) = (v) > *(at) ? (v) : *(at))
