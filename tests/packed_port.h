// A port for tests whose kernels read weights in other layouts (base/layout.h). It unpacks the weights into its
// scratch and runs the reference's loops, so results equal the reference's to the byte.
#pragma once

#include "engine/base/layout.h"
#include "engine/kernels/kernel.h"

namespace nacre::test {

// Layouts of the entries' weights: dense and conv2d in float32, float16 and int8; dense_gradient_x in float32.
inline constexpr Layout kDenseLayout = layout_of(3), kDenseInt8Layout = layout_of(4, 2), kConvLayout = layout_of(4),
                        kConvInt8Layout = layout_of(3, 3, kWholeTiles), kGradientLayout = kTransposed;

const KernelSet& packed_kernels();

// The port works in the host's memory, on blocks at multiples of 64.
const Port& packed_port();

}  // namespace nacre::test
