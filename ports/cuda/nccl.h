// The functions of NVIDIA's NCCL that ranks on GPUs exchange their sums with, found when a program runs, as cuBLASLt's
// are (cublaslt.h). Names, arguments and numbers are those of <nccl.h> (2.32), which declared/nccl.cc compares.
#pragma once

#include <cstddef>

#include "ports/cuda/driver.h"
#include "ports/cuda/library.h"

namespace nacre::cuda {

using NcclResult = unsigned;  // ncclResult_t
using NcclComm = struct ncclComm*;
struct NcclId {  // ncclUniqueId
  char internal[128];
};

inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr unsigned kNcclBytes = 1;  // ncclUint8, of ncclDataType_t

// The list of library.h.
#define NACRE_NCCL_FUNCTIONS(F)                                                                                     \
  F(version, ncclGetVersion, NcclResult, (int* version))                                                            \
  F(unique_id, ncclGetUniqueId, NcclResult, (NcclId * id))                                                          \
  F(init_rank, ncclCommInitRank, NcclResult, (NcclComm * comm, int ranks, NcclId id, int rank))                     \
  F(destroy, ncclCommDestroy, NcclResult, (NcclComm comm))                                                          \
  F(group_start, ncclGroupStart, NcclResult, ())                                                                    \
  F(group_end, ncclGroupEnd, NcclResult, ())                                                                        \
  F(send, ncclSend, NcclResult,                                                                                     \
    (const void* from, size_t count, unsigned type, int peer, NcclComm comm, Stream stream))                        \
  F(receive, ncclRecv, NcclResult, (void* to, size_t count, unsigned type, int peer, NcclComm comm, Stream stream)) \
  F(text, ncclGetErrorString, const char*, (NcclResult result))

struct Nccl {
  NACRE_NCCL_FUNCTIONS(NACRE_LIBRARY_MEMBER)
};

// The library of this machine, libnccl.so.2; null where there is none, or where it lacks one of the functions.
const Nccl* load_nccl();

}  // namespace nacre::cuda
