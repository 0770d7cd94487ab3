// The functions of NVIDIA's NCCL with which ranks on GPUs exchange their sums. They are found when a program runs,
// like cuBLASLt's (cublaslt.h). declared/nccl.cc compares names, arguments and numbers with <nccl.h> (2.32).
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
inline constexpr unsigned kNcclBytes = 1;  // ncclUint8, a value of ncclDataType_t

// The functions, as library.h's list describes them.
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

// Returns the library of this machine, libnccl.so.2; null if there is none, or if it lacks one of the functions.
const Nccl* load_nccl();

}  // namespace nacre::cuda
