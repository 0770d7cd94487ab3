// XNNPACK: operators of Google's library as kernels, for systems with a heap. This port can be used beside x86's.
//
//   const Port* const ports[] = {xnnpack::port()};   // null where XNNPACK cannot be used
//   Places places(ports);                            // engine/run/places.h; its bind takes the reference kernels
//
// XNNPACK takes dense, conv2d and depthwise_conv2d in float32, and in int8 with Rounding::kFloatEven (one scale, or
// one per channel), if weights, bias and scale are constants. It takes average_pool, add, sub, mul, clamp, sigmoid
// and hard_swish in float32, and max_pool in float32 and int8. The batch may be lowered. Fused activations and
// residuals stay with the reference kernels; a network that is converted with --no-fuse has none.
//
// Memory. XNNPACK copies weights into an order of its own. It also needs an operator of about 2 KB and, for most
// windows, 8 bytes per position of the window and output pixel. All these bytes are the caller's, in the block
// kPrepared. measure finds their number: it makes the operator of every step with weights of zeros, in memory from
// malloc that it gives back. bind does so too, and makes the real operators. Running a program allocates nothing.
//
// A process has one allocator for XNNPACK, which the first call of xnn_initialize sets. If another library made that
// call, port() is null. If this port made it, other code in the process cannot create operators: allocations outside
// of this port's own calls are refused and counted.
//
// Results. int8 results equal the reference's to the bit. The reference's kernel runs a step whose scales XNNPACK
// does not take (not positive and normal, or 256 and more). It also runs a step whose scales are so large that a sum
// times its scale may leave int32, because the two differ there. Floats are within the reference's tolerance, except
// NaN: NaN does not pass a clamp, nor max_pool, and the result is then a bound or another element.
//
// One thread runs a step: XNNPACK's own thread pool is not used. Programs may be bound and run on several threads at a
// time, each program by one.
#pragma once

#include <cstdint>
#include <span>

#include "engine/kernels/reference.h"

namespace nacre::xnnpack {

const Port* port();  // null if XNNPACK cannot be used; the first call initializes it
std::span<const reference::NamedEntry> list();

// Returns how often XNNPACK asked for memory while this port measured or prepared no step; it was refused.
uint64_t refused_allocations();

// Returns the number of steps, of all binds so far, that were left to the reference kernel because of their scales.
uint64_t steps_left_to_reference();

}  // namespace nacre::xnnpack
