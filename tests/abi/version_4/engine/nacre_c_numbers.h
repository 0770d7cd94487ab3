/* Nacre for C: numbers of a tensor as float32, and back. nacre_c.h includes this header.
 *
 *   nacre_tensor_info in = {sizeof in}; nacre_model_input(&model, "pixels", &in);
 *   nacre_write_numbers(&in, real, nacre_program_input(&program, 0, &n), count);     // int8 codes, float16, ...
 *
 * Formats of weights that are packed in blocks (MXFP8, NVFP4, ternary, int4 in groups) are templates of C++ in
 * <nacre/numeric.h>: the converter makes such weights, and no input or output has these formats. */
#ifndef NACRE_C_NUMBERS_H
#define NACRE_C_NUMBERS_H

#include "engine/nacre_c.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NACRE_FLOAT8_E4M3 = 13, NACRE_FLOAT8_E5M2 = 14, NACRE_FLOAT8_E4M3_FNUZ = 15, NACRE_FLOAT8_E5M2_FNUZ = 16 };

/* Convert `count` elements of a type: NACRE_FLOAT32 to NACRE_INT32, NACRE_BOOL, and the four types of float8. Rounding
   is to nearest even. A float32 outside the range of float16 or bfloat16 becomes infinite. A float32 outside the range
   of float8 or of an integer becomes the largest or the smallest number of the type. NaN becomes integer 0. `from` and
   `to` need no alignment. NACRE_ARGUMENT: a pointer is NULL, or the type has no conversion. */
nacre_status nacre_to_float32(uint8_t element, const void* from, float* to, size_t count);
nacre_status nacre_from_float32(uint8_t element, const float* from, void* to, size_t count);

/* Convert the first `count` elements of a tensor. If the tensor has a quantizer, real = scale * (code - zero), and a
   code is rounded half away from zero, as TFLite's quantize does. Without a quantizer, and if training changes the
   scale, they do as the two functions above. NACRE_ARGUMENT, index 0: the tensor has fewer elements, or its type has
   no conversion. */
nacre_status nacre_read_numbers(const nacre_tensor_info* info, const void* codes, float* real, size_t count);
nacre_status nacre_write_numbers(const nacre_tensor_info* info, const float* real, void* codes, size_t count);

#ifdef __cplusplus
}
#endif
#endif
