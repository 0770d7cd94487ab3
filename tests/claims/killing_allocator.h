// An allocator (malloc and its relatives, operator new) that counts its calls and ends the process if it is called
// while armed. Claims use it to show that nothing is allocated. A program that links it uses it in place of the C
// library's.
#pragma once

#include <cstdint>

namespace nacre::test {

inline constexpr int kTrapped = 97;  // exit code of a process that allocated while armed

void arm(bool armed);

// Returns the calls so far, in all threads; calls of free count too.
uint64_t allocator_calls();

// Runs `act`, armed, in a child process. Returns whether it ends in the trap.
bool traps(void (*act)());

// Returns whether malloc, operator new and calloc trap, and a function that allocates nothing does not.
bool allocator_works();

}  // namespace nacre::test
