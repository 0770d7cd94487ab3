// XNNPACK's C interface as this port calls it. The library has no version numbers, and its functions have changed:
//
//   2022-02   create(.., &operator)                   setup(operator, sizes, pointers, threads)
//   then      create(.., cache, cache, &operator)     the same; since 2025-05 with one cache
//   2023-07   qc8 is called qs8_qc8w                  reshape(operator, sizes, [workspace..], threads)
//                                                     setup(operator, [workspace], pointers)
//   2024-10   functions of one element, and of two, have one name for all (NACRE_XNNPACK_ELEMENTWISE)
//
// The code finds the header's version by what can be called. A name in a generic lambda is looked up when the lambda
// is called, among the functions of its arguments' types, so the name need not exist. Built and run with 2022-02 and
// 2024-11.
#pragma once

#include <xnnpack.h>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace nacre::xnnpack {

// Makes a lambda that calls the function `name`. std::invocable tells which arguments it takes.
// clang-format off
#define NACRE_XNN(name) [](auto... v) requires requires { name(v...); } { return name(v...); }

// Makes such a lambda for a function that is called `before` in earlier versions.
#define NACRE_XNN_RENAMED(name, before)                                        \
  [](auto... v)                                                                \
    requires(requires { name(v...); } || requires { before(v...); })           \
  {                                                                            \
    if constexpr (requires { name(v...); }) return name(v...);                 \
    else return before(v...);                                                  \
  }

// clang-format on

// Calls create(a.., made), with null for each cache that this version of XNNPACK has in between.
template <class F, class... A>
xnn_status create_with(F create, xnn_operator_t* made, A... a) {
  if constexpr (std::invocable<F, A..., xnn_operator_t*>) return create(a..., made);
  else if constexpr (std::invocable<F, A..., std::nullptr_t, xnn_operator_t*>) return create(a..., nullptr, made);
  else return create(a..., nullptr, nullptr, made);
}

// ---- Operators over images (a Map), [batch, h, w, channels] ----

struct Map {
  size_t batch, h, w;
  uint32_t channels;
};

// Calls reshape(op, sizes.., [workspace bytes, [alignment]], out_h, out_w, threads), with what this version has of [].
template <class F, class... S>
xnn_status reshape_map(F reshape, xnn_operator_t op, size_t* workspace, S... sizes) {
  using Size = size_t*;
  size_t out_h = 0, out_w = 0, alignment = 0;
  if constexpr (std::invocable<F, xnn_operator_t, S..., Size, Size, pthreadpool_t>)
    return reshape(op, sizes..., &out_h, &out_w, pthreadpool_t{});
  else if constexpr (std::invocable<F, xnn_operator_t, S..., Size, Size, Size, pthreadpool_t>)
    return reshape(op, sizes..., workspace, &out_h, &out_w, pthreadpool_t{});
  else return reshape(op, sizes..., workspace, &alignment, &out_h, &out_w, pthreadpool_t{});
}

// Gives an operator its sizes and pointers; allocate(bytes) gives it a workspace. With kPool, and if there is a
// reshape, channels and strides are among the sizes.
template <bool kPool, class Setup, class Reshape, class T, class Allocate>
xnn_status place_map(Setup setup, Reshape reshape, xnn_operator_t op, const Map& m, const T* x, T* y,
                     Allocate allocate) {
  if constexpr (std::invocable<Setup, xnn_operator_t, size_t, size_t, size_t, const T*, T*, pthreadpool_t>) {
    return setup(op, m.batch, m.h, m.w, x, y, pthreadpool_t{});
  } else {
    size_t workspace = 0;
    const size_t c = m.channels;
    xnn_status status;
    if constexpr (kPool) status = reshape_map(reshape, op, &workspace, m.batch, m.h, m.w, c, c, c);
    else status = reshape_map(reshape, op, &workspace, m.batch, m.h, m.w);
    if (status != xnn_status_success) return status;
    if constexpr (std::invocable<Setup, xnn_operator_t, const T*, T*>) {
      return setup(op, x, y);
    } else {
      void* const memory = workspace == 0 ? nullptr : allocate(workspace);
      return workspace != 0 && memory == nullptr ? xnn_status_out_of_memory : setup(op, memory, x, y);
    }
  }
}

// Calls create(window.., [channels, strides], low, high, flags, made), with what this version has of [].
template <class F, class T, class... W>
xnn_status create_pool(F create, xnn_operator_t* made, uint32_t channels, T low, T high, W... window) {
  const size_t c = channels;
  if constexpr (std::invocable<F, W..., size_t, size_t, size_t, T, T, uint32_t, xnn_operator_t*>)
    return create(window..., c, c, c, low, high, uint32_t{0}, made);
  else return create(window..., low, high, uint32_t{0}, made);
}

// ---- Functions of one element, over rows of one channel, and functions of two elements ----

struct Dims6 {
  size_t rank, size[XNN_MAX_TENSOR_DIMS];
};

#ifdef NACRE_XNNPACK_ELEMENTWISE

inline constexpr bool kBinaryClamps = false;  // clamps are separate operators

inline xnn_status create_unary(xnn_unary_operator function, const xnn_unary_params* parameters, xnn_operator_t* made) {
  return xnn_create_unary_elementwise_nc(function, xnn_datatype_fp32, xnn_datatype_fp32, parameters, nullptr, nullptr,
                                         0, made);
}
inline xnn_status create_clamp(float low, float high, xnn_operator_t* made) {
  xnn_unary_params parameters = {};
  parameters.clamp.min = low, parameters.clamp.max = high;
  return create_unary(xnn_unary_clamp, &parameters, made);
}
inline xnn_status create_sigmoid(float, float, xnn_operator_t* made) {
  return create_unary(xnn_unary_sigmoid, nullptr, made);
}
inline xnn_status create_hard_swish(float, float, xnn_operator_t* made) {
  return create_unary(xnn_unary_hardswish, nullptr, made);
}

#define NACRE_XNN_PLACE_UNARY(name)                                                              \
  inline xnn_status place_##name(xnn_operator_t op, size_t elements, const float* x, float* y) { \
    const xnn_status status = xnn_reshape_unary_elementwise_nc(op, elements, 1, 1, 1, nullptr);  \
    return status != xnn_status_success ? status : xnn_setup_unary_elementwise_nc(op, x, y);     \
  }
NACRE_XNN_PLACE_UNARY(clamp)
NACRE_XNN_PLACE_UNARY(sigmoid)
NACRE_XNN_PLACE_UNARY(hard_swish)

#define NACRE_XNN_BINARY(name, function)                                                                            \
  inline xnn_status create_##name(float, float, xnn_operator_t* made) {                                             \
    return xnn_create_binary_elementwise_nd(function, xnn_datatype_fp32, nullptr, nullptr, nullptr, 0, made);       \
  }                                                                                                                 \
  inline xnn_status place_##name(xnn_operator_t op, const Dims6& a, const Dims6& b, const float* x, const float* z, \
                                 float* y) {                                                                        \
    const xnn_status status = xnn_reshape_binary_elementwise_nd(op, a.rank, a.size, b.rank, b.size, nullptr);       \
    return status != xnn_status_success ? status : xnn_setup_binary_elementwise_nd(op, x, z, y);                    \
  }
NACRE_XNN_BINARY(add, xnn_binary_add)
NACRE_XNN_BINARY(sub, xnn_binary_subtract)
NACRE_XNN_BINARY(mul, xnn_binary_multiply)

#else

inline constexpr bool kBinaryClamps = true;

template <class F, class... A>
xnn_status create_unary(F create, xnn_operator_t* made, A... a) {
  if constexpr (std::invocable<F, size_t, size_t, size_t, A..., uint32_t, xnn_operator_t*>)
    return create(size_t{1}, size_t{1}, size_t{1}, a..., uint32_t{0}, made);
  else return create(a..., uint32_t{0}, made);
}
template <class Setup, class Reshape>
xnn_status place_unary(Setup setup, Reshape reshape, xnn_operator_t op, size_t elements, const float* x, float* y) {
  const pthreadpool_t none = nullptr;
  constexpr size_t kOne = 1;
  if constexpr (std::invocable<Setup, xnn_operator_t, size_t, const float*, float*, pthreadpool_t>) {
    return setup(op, elements, x, y, none);
  } else {
    xnn_status status;
    if constexpr (std::invocable<Reshape, xnn_operator_t, size_t, size_t, size_t, size_t, pthreadpool_t>)
      status = reshape(op, elements, kOne, kOne, kOne, none);
    else status = reshape(op, elements, none);
    return status != xnn_status_success ? status : setup(op, x, y);
  }
}
template <class Setup, class Reshape>
xnn_status place_binary(Setup setup, Reshape reshape, xnn_operator_t op, const Dims6& a, const Dims6& b, const float* x,
                        const float* z, float* y) {
  const pthreadpool_t none = nullptr;
  const size_t *from = a.size, *of = b.size;
  if constexpr (std::invocable<Setup, xnn_operator_t, size_t, const size_t*, size_t, const size_t*, const float*,
                               const float*, float*, pthreadpool_t>) {
    return setup(op, a.rank, from, b.rank, of, x, z, y, none);
  } else {
    const xnn_status status = reshape(op, a.rank, from, b.rank, of, none);
    return status != xnn_status_success ? status : setup(op, x, z, y);
  }
}

inline xnn_status create_clamp(float low, float high, xnn_operator_t* made) {
  return create_unary(NACRE_XNN(xnn_create_clamp_nc_f32), made, low, high);
}
inline xnn_status create_sigmoid(float, float, xnn_operator_t* made) {
  return create_unary(NACRE_XNN(xnn_create_sigmoid_nc_f32), made);
}
inline xnn_status create_hard_swish(float, float, xnn_operator_t* made) {
  return create_unary(NACRE_XNN(xnn_create_hardswish_nc_f32), made);
}

#define NACRE_XNN_PLACE_UNARY(name, as)                                                                               \
  inline xnn_status place_##name(xnn_operator_t op, size_t elements, const float* x, float* y) {                      \
    return place_unary(NACRE_XNN(xnn_setup_##as##_nc_f32), NACRE_XNN(xnn_reshape_##as##_nc_f32), op, elements, x, y); \
  }
NACRE_XNN_PLACE_UNARY(clamp, clamp)
NACRE_XNN_PLACE_UNARY(sigmoid, sigmoid)
NACRE_XNN_PLACE_UNARY(hard_swish, hardswish)

#define NACRE_XNN_BINARY(name, as)                                                                                    \
  inline xnn_status create_##name(float low, float high, xnn_operator_t* made) {                                      \
    return xnn_create_##as##_nd_f32(low, high, 0, made);                                                              \
  }                                                                                                                   \
  inline xnn_status place_##name(xnn_operator_t op, const Dims6& a, const Dims6& b, const float* x, const float* z,   \
                                 float* y) {                                                                          \
    return place_binary(NACRE_XNN(xnn_setup_##as##_nd_f32), NACRE_XNN(xnn_reshape_##as##_nd_f32), op, a, b, x, z, y); \
  }
NACRE_XNN_BINARY(add, add)
NACRE_XNN_BINARY(sub, subtract)
NACRE_XNN_BINARY(mul, multiply)

#endif

}  // namespace nacre::xnnpack
