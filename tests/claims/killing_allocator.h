// An allocator that counts its calls, and ends the process when it is called while armed: malloc and its kin, operator
// new. For claims that nothing is allocated. Linked into the program, it replaces the C library's.
#pragma once

#include <cstdint>

namespace nacre::test {

inline constexpr int kTrapped = 97;  // exit code of a process that allocated while armed

void arm(bool armed);

// So far, in all threads, free too.
uint64_t allocator_calls();

// In a child process: whether `act`, armed, ends in the trap.
bool traps(void (*act)());

// malloc, operator new and calloc trap, and nothing else does.
bool allocator_works();

}  // namespace nacre::test
