// The functions of NVIDIA's cuBLASLt that the port calls. They are found when a program runs, like the driver's
// (driver.h). declared/cublaslt.cc compares names, arguments and numbers with <cublasLt.h> (CUDA 13).
//
// Descriptors lie in the caller's memory. Making them needs neither a GPU nor a driver; choosing an algorithm does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ports/cuda/driver.h"
#include "ports/cuda/library.h"

namespace nacre::cuda {

using LtStatus = int;     // cublasStatus_t; 0 is success
using LtEnum = unsigned;  // as large as the library's enums
using LtHandle = struct cublasLtContext*;

struct LtProduct {  // cublasLtMatmulDescOpaque_t
  uint64_t data[32];
};
struct LtMatrix {  // cublasLtMatrixLayoutOpaque_t
  uint64_t data[8];
};
struct LtPreference {  // cublasLtMatmulPreferenceOpaque_t
  uint64_t data[8];
};
struct LtAlgorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct LtChoice {  // cublasLtMatmulHeuristicResult_t
  LtAlgorithm algorithm;
  size_t workspace;
  LtStatus state;
  float waves;
  int reserved[4];
};

enum : LtStatus { kLtSuccess = 0, kLtNotInitialized = 1, kLtInvalidValue = 7, kLtNotSupported = 15 };
enum LtType : LtEnum {  // cudaDataType
  kLtF32 = 0,
  kLtF64 = 1,
  kLtF16 = 2,
  kLtI8 = 3,
  kLtI32 = 10,
  kLtBf16 = 14,
  kLtE4M3 = 28,
  kLtE5M2 = 29,
};
enum : LtEnum {  // cublasComputeType_t
  kLtCompute32F = 68,
  kLtCompute64F = 70,
  kLtCompute32I = 72,
  kLtComputeTf32 = 77,
};
enum : LtEnum {  // cublasLtMatmulDescAttributes_t
  kLtTransposeA = 3,
  kLtTransposeB = 4,
  kLtEpilogue = 7,
  kLtBiasPointer = 8,
  kLtScaleA = 17,  // the address of a float32
  kLtScaleB = 18,
  kLtBiasType = 26,
};
enum : LtEnum { kLtEpilogueNone = 1, kLtEpilogueBias = 4 };  // cublasLtEpilogue_t
enum : LtEnum { kLtBatchCount = 5, kLtBatchStride = 6 };     // cublasLtMatrixLayoutAttribute_t
enum : LtEnum {                                              // cublasLtMatmulPreferenceAttributes_t
  kLtMostWorkspace = 1,
  kLtReductions = 3,
  kLtLeastAlignmentA = 5,  // the attributes of B, C, D follow
};
enum : LtEnum { kLtReduceNone = 0, kLtReduceComputeType = 2 };  // cublasLtReductionScheme_t

// The functions, as library.h's list describes them.
#define NACRE_CUBLASLT_FUNCTIONS(F)                                                                             \
  F(create, cublasLtCreate, LtStatus, (LtHandle * handle))                                                      \
  F(destroy, cublasLtDestroy, LtStatus, (LtHandle handle))                                                      \
  F(product_init, cublasLtMatmulDescInit_internal, LtStatus,                                                    \
    (LtProduct * product, size_t size, LtEnum compute, LtEnum scale))                                           \
  F(product_set, cublasLtMatmulDescSetAttribute, LtStatus,                                                      \
    (LtProduct * product, LtEnum name, const void* value, size_t size))                                         \
  F(matrix_init, cublasLtMatrixLayoutInit_internal, LtStatus,                                                   \
    (LtMatrix * matrix, size_t size, LtEnum type, uint64_t rows, uint64_t columns, int64_t step))               \
  F(matrix_set, cublasLtMatrixLayoutSetAttribute, LtStatus,                                                     \
    (LtMatrix * matrix, LtEnum name, const void* value, size_t size))                                           \
  F(preference_init, cublasLtMatmulPreferenceInit_internal, LtStatus, (LtPreference * preference, size_t size)) \
  F(preference_set, cublasLtMatmulPreferenceSetAttribute, LtStatus,                                             \
    (LtPreference * preference, LtEnum name, const void* value, size_t size))                                   \
  F(choose, cublasLtMatmulAlgoGetHeuristic, LtStatus,                                                           \
    (LtHandle handle, LtProduct * product, LtMatrix * a, LtMatrix * b, LtMatrix * c, LtMatrix * d,              \
     LtPreference * preference, int most, LtChoice* choices, int* found))                                       \
  F(multiply, cublasLtMatmul, LtStatus,                                                                         \
    (LtHandle handle, LtProduct * product, const void* alpha, const void* a, LtMatrix* a_is, const void* b,     \
     LtMatrix* b_is, const void* beta, const void* c, LtMatrix* c_is, void* d, LtMatrix* d_is,                  \
     const LtAlgorithm* algorithm, void* workspace, size_t workspace_bytes, Stream stream))

struct CublasLt {
  NACRE_CUBLASLT_FUNCTIONS(NACRE_LIBRARY_MEMBER)
};

// Returns the library of this machine; null if there is none, or if it lacks one of the functions.
const CublasLt* load_cublaslt();
// Loads the library for this driver. Returns null without a driver, and then does not load the library's half
// gigabyte.
inline const CublasLt* load_cublaslt(const Driver* driver) { return driver != nullptr ? load_cublaslt() : nullptr; }

}  // namespace nacre::cuda
