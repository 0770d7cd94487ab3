// Compiles only if <cublasLt.h> declares each function of cublaslt.h with the same arguments.
#include "ports/cuda/cublaslt.h"

#include <cublasLt.h>

#include "ports/cuda/signature.h"

namespace nacre::cuda {
namespace {

using Library = CublasLt;
NACRE_CUBLASLT_FUNCTIONS(NACRE_LIBRARY_DECLARED)

static_assert(sizeof(LtProduct) == sizeof(cublasLtMatmulDescOpaque_t) &&
              sizeof(LtMatrix) == sizeof(cublasLtMatrixLayoutOpaque_t) &&
              sizeof(LtPreference) == sizeof(cublasLtMatmulPreferenceOpaque_t) &&
              sizeof(LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t) &&
              sizeof(LtChoice) == sizeof(cublasLtMatmulHeuristicResult_t) &&
              offsetof(LtChoice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

constexpr bool same(int ours, int theirs) { return ours == theirs; }
static_assert(same(kLtSuccess, CUBLAS_STATUS_SUCCESS) && same(kLtNotInitialized, CUBLAS_STATUS_NOT_INITIALIZED) &&
              same(kLtInvalidValue, CUBLAS_STATUS_INVALID_VALUE) && same(kLtNotSupported, CUBLAS_STATUS_NOT_SUPPORTED));
static_assert(same(kLtF32, CUDA_R_32F) && same(kLtF64, CUDA_R_64F) && same(kLtF16, CUDA_R_16F) &&
              same(kLtI8, CUDA_R_8I) && same(kLtI32, CUDA_R_32I) && same(kLtBf16, CUDA_R_16BF) &&
              same(kLtE4M3, CUDA_R_8F_E4M3) && same(kLtE5M2, CUDA_R_8F_E5M2));
static_assert(same(kLtCompute32F, CUBLAS_COMPUTE_32F) && same(kLtCompute64F, CUBLAS_COMPUTE_64F) &&
              same(kLtCompute32I, CUBLAS_COMPUTE_32I) && same(kLtComputeTf32, CUBLAS_COMPUTE_32F_FAST_TF32));
static_assert(same(kLtTransposeA, CUBLASLT_MATMUL_DESC_TRANSA) && same(kLtTransposeB, CUBLASLT_MATMUL_DESC_TRANSB) &&
              same(kLtEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE) &&
              same(kLtBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER) &&
              same(kLtScaleA, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) &&
              same(kLtScaleB, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) &&
              same(kLtBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE));
static_assert(same(kLtEpilogueNone, CUBLASLT_EPILOGUE_DEFAULT) && same(kLtEpilogueBias, CUBLASLT_EPILOGUE_BIAS));
static_assert(same(kLtBatchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) &&
              same(kLtBatchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) &&
              same(kLtMostWorkspace, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) &&
              same(kLtReductions, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) &&
              same(kLtReduceNone, CUBLASLT_REDUCTION_SCHEME_NONE) &&
              same(kLtReduceComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) &&
              same(kLtLeastAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) &&
              same(kLtLeastAlignmentA + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES) &&
              same(kLtLeastAlignmentA + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES) &&
              same(kLtLeastAlignmentA + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES));

}  // namespace
}  // namespace nacre::cuda
