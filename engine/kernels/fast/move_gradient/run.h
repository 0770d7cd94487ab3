// Code of the kernel forms that forms.h declares. It is compiled for several instruction sets.
#pragma once

#include <cstring>

#include "engine/kernels/fast/move_gradient/forms.h"

namespace nacre::inline NACRE_ISA {

template <class T>
void FastPadGradient<T>::run(const T* dy, T* dx) const {
  rows.each([&](const int32_t* at) {
    std::memcpy(dx, dy + at[0], size_t(width) * sizeof(T));
    dx += width;
  });
}

template <class T>
void FastSliceGradient<T>::run(const T* dy, T* dx) const {
  std::memset(dx, 0, size_t(op.x.elements()) * sizeof(T));
  if (width == 1) return op.slice.walk.each([&](const int32_t* at) { dx[at[0]] = *dy++; });
  op.slice.walk.each([&](const int32_t* at) {
    std::memcpy(dx + at[0], dy, size_t(width) * sizeof(T));
    dy += width;
  });
}

}  // namespace nacre::inline NACRE_ISA
