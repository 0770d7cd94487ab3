// NCCL over MPI, for tests of ranks with a simulated GPU each, whose memory it reads and writes by the driver's copies.
// It keeps NCCL's rules: what is put between group_start and group_end is under way together, behind what is in the
// stream, and a call outside of them is refused.
#pragma once

#include "ports/cuda/nccl.h"

namespace nacre::test {

// `fails`: the message, from 1, whose ncclSend is refused on the last rank; 0: none. When a communicator is destroyed,
// its rank prints "fake nccl: N messages, B bytes sent" on standard error.
const cuda::Nccl& fake_nccl(const cuda::Driver& driver, unsigned fails = 0);

}  // namespace nacre::test
