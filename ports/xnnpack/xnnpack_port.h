// XNNPACK: operators of Google's library as kernels. For systems with a heap; a port beside x86's.
//
//   const Port* const ports[] = {xnnpack::port()};   // null where XNNPACK cannot be used
//   Places places(ports);                            // engine/run/places.h; the reference kernels stay behind
//
// XNNPACK takes dense, conv2d and depthwise_conv2d in float32, and in int8 with Rounding::kFloatEven (one scale, or
// one per channel), where weights, bias and scale are constants; average_pool, add, sub, mul, clamp, sigmoid and
// hard_swish in float32; max_pool in float32 and int8. The batch may be lowered. Fused activations and residuals stay
// with the reference: a network that is converted with --no-fuse has none.
//
// Memory. XNNPACK copies weights into an order of its own, beside an operator of some 2 KB and, for most windows, 8
// bytes per tap and output pixel. All of it is the caller's: of the block kPrepared. How much, measure finds out by
// making the operator of every step once with weights of zeros, in memory from malloc that it gives back; bind does it
// three times more and makes the real one. Running a program allocates nothing.
//
// XNNPACK's allocator is one per process, and the first call of xnn_initialize decides it. Where that was another
// library's, port() is null. Where it was this port's, others in the process cannot create operators: outside of this
// port's own calls, allocations are refused and counted.
//
// Results. int8 is the reference's to the bit. A step whose scales are outside of what XNNPACK takes (not positive and
// normal, or 256 and more), or so large that a sum times its scale may leave int32, where the two differ, is run by the
// reference's kernel. Floats are within the reference's tolerance, but NaN does not pass a clamp, nor max_pool: what
// comes out then is a bound or another element.
//
// One thread runs a step: XNNPACK's own thread pool is not used. Programs may be bound and run on several threads at a
// time, each program by one.
#pragma once

#include <cstdint>
#include <span>

#include "engine/kernels/reference.h"

namespace nacre::xnnpack {

const Port* port();  // the first call initializes XNNPACK
std::span<const reference::NamedEntry> list();

// Allocations that XNNPACK asked for while no step of this port was prepared; they were refused.
uint64_t refused_allocations();

// Steps so far that were prepared for the reference's kernel, because of what their scales are.
uint64_t steps_left_to_reference();

}  // namespace nacre::xnnpack
