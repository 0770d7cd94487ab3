// A port for tests whose kernels read weights in layouts of their own (base/layout.h): it makes them row-major in its
// scratch and runs the reference's loops, so that results are the reference's to the byte.
#pragma once

#include "engine/base/layout.h"
#include "engine/kernels/kernel.h"

namespace nacre::test {

// Layouts of its entries' weights: dense and conv2d in float32, float16 and int8; dense_gradient_x in float32.
inline constexpr Layout kDenseLayout = layout_of(3), kDenseInt8Layout = layout_of(4, 2), kConvLayout = layout_of(4),
                        kConvInt8Layout = layout_of(3, 3, kWholeTiles), kGradientLayout = kTransposed;

const KernelSet& packed_kernels();

// On the host's memory, at multiples of 64.
const Port& packed_port();

}  // namespace nacre::test
