// StaticProgram: a program that was bound on a PC. Its calls and their ops are constants in flash, which
// `nacre firmware` writes as C++. Its weights are one aligned array, and its arena is another. The device verifies,
// measures and binds nothing: an image links `run`, the kernels that the calls name, and no other part of the engine.
//
// If the kernel allows it (kernels/ready.h), the compiler makes the op of a call, with its sizes and attributes, from
// the words and records in the same file. The words and records are then not in the image.
//
// kws.h declares kws_program; `nacre firmware --name kws` writes it.
//
// Example:
//   start_stream(kws_program);                                      // once, if the network has streams
//   while (next_chunk(kws_program.inputs[0])) {                     // before every run
//     if (const Code code = kws_program.run(); code != Code::kOk) return code;
//     use(kws_program.outputs[0]);
//   }
//
// The tables fit one version of this library: they assert this version and the layout of the structs that they hold.
// A static program runs the compiled number of rows, without workers and without ports. train/static_trainer.h trains
// static programs. Its arena is static memory, so one thread runs it at a time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/crc32c.h"
#include "engine/run/bound_calls.h"

namespace nacre {

inline constexpr uint32_t kLibraryVersion = 200;  // 10,000 major + 100 minor + patch (c_api.cc asserts it)
// Changes when the meaning of tables changes: that of a struct, of an op's words, or of the operands of a kernel that
// keeps its name.
inline constexpr uint32_t kStaticVersion = 1;

// The declarations from here to StaticBlock are for the tables that `nacre firmware` writes.
//
// A call as a constant. The engine finds the operands directly after it.
template <int kTensors>
struct StaticCall {
  Call call;
  Tensor tensors[size_t(kTensors)];
};
static_assert(sizeof(StaticCall<3>) == sizeof(Call) + 3 * sizeof(Tensor));

// Make a step and an operand's record with the fields that a kernel reads; other fields are empty. The guard of a
// step, if it has one, comes after the operands.
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
// Removes const from the address of weights or of an op. No kernel writes weights, because the PC checked the roles
// of operands; no kernel writes an op.
constexpr void* static_constant(const void* constant) { return const_cast<void*>(constant); }

// Computes the CRC-32C of words, steps or records at compile time, to assert that tables are as nacre firmware wrote
// them.
template <class Item>
constexpr uint32_t static_crc(std::span<const Item> items, uint32_t crc = 0) {
  for (const Item& item : items) crc = crc32c(std::bit_cast<std::array<std::byte, sizeof(Item)>>(item), crc);
  return crc;
}

// Bytes that operands or calls of a static program point into: constants in flash, or the arena.
struct StaticBlock {
  const void* data;
  uint32_t bytes;
};

}  // namespace nacre

// Outside the namespace, because nacre_c.h declares this struct as C's opaque nacre_static_program.
struct nacre_static_program {
  nacre::BoundCalls calls;
  uint32_t call_count;
  // Written before, read after every run: the bytes of each input and output, row-major. NAME.h has the element type
  // and the number of elements, and scale and zero point if there is one of each. An output may share bytes with an
  // input.
  std::span<const std::span<std::byte>> inputs, outputs;
  std::span<std::byte> stream;  // survives from run to run; zero when a stream begins
  // The blocks that operands point into: weights, stream and each bank of the arena. The ops follow, which calls
  // point at.
  std::span<const nacre::StaticBlock> blocks;
  uint32_t first_op;  // index of the first op in `blocks`
  uint8_t hash[16];   // hash of the model file that was checked (FileHeader::hash)
  uint32_t crc;       // CRC of all constants: table_crc() on the PC

  // Runs the program once. kIndex: an index in the data is out of range; outputs then hold no results. There is no
  // other failure.
  nacre::Code run() const {
    uint32_t at = 0;
    return calls.run(0, call_count, 0, &at);
  }
};

namespace nacre {

using StaticProgram = ::nacre_static_program;

// Begins a stream: sets the bytes that survive from run to run to zero. They are zero when the image starts.
void start_stream(const StaticProgram& program);

// Computes the CRC-32C of these, in this order: the hash; every call's step, words, op and operands (place, record);
// inputs; outputs; weights; ops. Places are {block, offset} of 32 bits each, so the sum is the same on every machine.
// The padding of constant ops is 0 for the same reason. If the sum differs from `crc`, the image has other constants
// than the PC wrote. Kernels are not part of the sum: the self-test checks them by their outputs.
uint32_t table_crc(const StaticProgram& program);

}  // namespace nacre
