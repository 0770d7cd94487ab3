// StaticProgram: a program that was bound on a PC. Its calls and their ops are constants in flash, which
// `nacre firmware` writes as C++; weights are one aligned array, the arena another. Nothing is verified, measured or
// bound on the device: an image links `run` and the kernels that the calls name, and nothing else of the engine.
//
// The op of a call, its sizes and attributes, is made by the compiler where its kernel can (kernels/ready.h). It is
// made of the words and records that stand in the same file: these are not in the image then.
//
//   #include "kws.h"                                    // written by nacre firmware --name kws
//   std::memcpy(kws_program.inputs[0].data(), ...);     // before every run
//   NACRE_TRY_CODE(kws_program.run());
//   read kws_program.outputs[0]
//
// The tables are those of one version of this library: they assert it, and the layout of what they hold. Not here:
// fewer rows than compiled, workers, ports, training.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/crc32c.h"
#include "engine/run/bound_calls.h"

namespace nacre {

inline constexpr uint32_t kLibraryVersion = 100;  // 10,000 major + 100 minor + patch (c_api.cc asserts it)
// Changes with what tables mean: structs, the words of an op, the operands of a kernel of the same name.
inline constexpr uint32_t kStaticVersion = 1;

// A call as a constant: the engine finds the operands behind it.
template <int kTensors>
struct StaticCall {
  Call call;
  Tensor tensors[size_t(kTensors)];
};
static_assert(sizeof(StaticCall<3>) == sizeof(Call) + 3 * sizeof(Tensor));

// Fields of a step and of an operand's record that a kernel reads, and nothing else. A step with a guard finds it
// behind the operands.
constexpr StepRecord static_step(uint16_t op, uint8_t rounding, uint8_t operands, uint32_t first_word, uint8_t words,
                                 bool guarded = false) {
  StepRecord step = {};
  step.op = Op(op), step.rounding = Rounding(rounding);
  step.operand_count = operands, step.word_count = words, step.first_word = first_word;
  step.layer = kNoIndex, step.guard = guarded ? 0 : kNoIndex;
  return step;
}
constexpr TensorRecord static_record(uint8_t element, uint8_t region, uint8_t layout, uint16_t flags, uint64_t bytes,
                                     std::span<const int32_t> dims) {
  TensorRecord r = {};
  r.element = ElementType(element), r.region = Region(region), r.layout = Layout(layout);
  r.flags = flags, r.bytes = bytes, r.rank = uint8_t(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) r.dims[i] = dims[i];
  r.alias_of = r.quantizer = r.initial = kNoIndex;
  return r;
}
template <size_t kRank>
constexpr TensorRecord static_record(uint8_t element, uint8_t region, uint8_t layout, uint16_t flags, uint64_t bytes,
                                     const int32_t (&dims)[kRank]) {
  return static_record(element, region, layout, flags, bytes, std::span<const int32_t>(dims));
}
// Weights and ops are constant: roles, checked on the PC, keep every kernel from writing the first, and none writes the
// second.
constexpr void* static_constant(const void* constant) { return const_cast<void*>(constant); }

// CRC-32C of words, steps or records, by the compiler: whether tables are those that nacre firmware wrote.
template <class Item>
constexpr uint32_t static_crc(std::span<const Item> items, uint32_t crc = 0) {
  for (const Item& item : items) crc = crc32c(std::bit_cast<std::array<std::byte, sizeof(Item)>>(item), crc);
  return crc;
}

struct StaticBlock {
  const void* data;
  uint32_t bytes;
};

}  // namespace nacre

// Outside the namespace, because it is C's opaque nacre_static_program (nacre_c.h) too.
struct nacre_static_program {
  nacre::BoundCalls calls;
  uint32_t call_count;
  std::span<const std::span<std::byte>> inputs, outputs;  // written before, read after every run
  std::span<std::byte> stream;                            // what survives from run to run; zero when a stream begins
  // Weights, stream, each bank of the arena: what operands point into; then ops, which calls point at.
  std::span<const nacre::StaticBlock> blocks;
  uint32_t first_op;  // in `blocks`
  uint8_t hash[16];   // of the model file that was checked (FileHeader::hash)
  uint32_t crc;       // of all constants: table_crc() on the PC

  nacre::Code run() const {  // fails only on indices found in data
    uint32_t at = 0;
    return calls.run(0, call_count, 0, &at);
  }
};

namespace nacre {

using StaticProgram = ::nacre_static_program;

// Sets the bytes that survive from run to run to zero.
void start_stream(const StaticProgram& program);

// CRC-32C of the hash, of every call's step, words, op and operands (place, record), of inputs, outputs, weights and
// ops, in this order; places are {block, offset}, 32 bits each: the same on every machine, as ops are, whose padding is
// 0 where they are constants. For a self-test: an image where it is not `crc` has other constants than those that the
// PC wrote. Kernels have no number that a PC knows: that they are the right ones is shown by what they compute.
uint32_t table_crc(const StaticProgram& program);

}  // namespace nacre
