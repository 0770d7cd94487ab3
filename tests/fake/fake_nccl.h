// NCCL over MPI, for tests of ranks with a simulated GPU each, whose memory it reads and writes by the driver's copies.
// It keeps NCCL's rules: what is put between group_start and group_end is under way together, behind what is in the
// stream, and a call outside of them is refused.
#pragma once

#include "ports/cuda/nccl.h"

namespace nacre::test {

inline constexpr unsigned kRefusesToOpen = 999'999;

// `fails`: the number, from 1, of the message whose ncclSend the last rank refuses; 0: none; kRefusesToOpen: the last
// rank refuses the communicator. A rank that destroys its communicator prints "fake nccl: N messages, B bytes sent" on
// standard error.
const cuda::Nccl& fake_nccl(const cuda::Driver& driver, unsigned fails = 0);

}  // namespace nacre::test
