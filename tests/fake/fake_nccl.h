// NCCL over MPI, for tests in which each rank has a simulated GPU. It reads and writes device memory by the driver's
// copies, and keeps NCCL's rules: calls between group_start and group_end run together, after the work in the stream.
// A call outside of a group is refused.
#pragma once

#include "ports/cuda/nccl.h"

namespace nacre::test {

inline constexpr unsigned kRefusesToOpen = 999'999;

// `fails` is the number, from 1, of the message whose ncclSend the last rank refuses, or 0 for none. With
// kRefusesToOpen the last rank refuses the communicator. A rank that destroys its communicator prints "fake nccl: N
// messages, B bytes sent" on standard error.
const cuda::Nccl& fake_nccl(const cuda::Driver& driver, unsigned fails = 0);

}  // namespace nacre::test
