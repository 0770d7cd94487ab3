// Compiles only if <nccl.h> declares each function of nccl.h with the same arguments. NCCL is no part of the toolkit.
// If its header is missing, tests/claims/nccl_declared.sh brings it.
#include "ports/cuda/nccl.h"

#include <nccl.h>

#include "ports/cuda/signature.h"

namespace nacre::cuda {

template <>
struct Plain<ncclUniqueId> {
  using Type = NcclId;
};
template <class... A>
struct Signature<const char* (*)(A...)> {
  using Type = std::tuple<typename Plain<A>::Type...>;
};

namespace {

using Library = Nccl;
NACRE_NCCL_FUNCTIONS(NACRE_LIBRARY_DECLARED)

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && sizeof(NcclId::internal) == NCCL_UNIQUE_ID_BYTES);
static_assert(kNcclSuccess == NcclResult(ncclSuccess) && kNcclBytes == unsigned(ncclUint8));

}  // namespace
}  // namespace nacre::cuda
