// The seam between programs and ports: a Kernel runs one bound step; a KernelEntry says what it can run.
//
// A port is a list of entries. bind() takes the first entry that accepts a step, in the order of the sets the caller
// passed; the reference kernels usually come last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/ops/op.h"

namespace nacre {

struct Args;
using Kernel = Code (*)(const Args& args);

// What bind stores per step, in the caller's memory: 12 + 8 bytes per operand on a 32-bit machine. Operands follow.
struct Call {
  Kernel run;
  const StepRecord* step;
  void* prepared;

  const Tensor* operands() const { return reinterpret_cast<const Tensor*>(this + 1); }
  Tensor* operands() { return reinterpret_cast<Tensor*>(this + 1); }
};
static_assert(sizeof(Call) == 3 * sizeof(void*) && sizeof(Tensor) == 2 * sizeof(void*));

// The caller's threads. run() returns when task(task_context, i) has been called once for each i in [0, tiles).
struct Workers {
  void* context;
  int count;
  void (*run)(void* context, void (*task)(void* task_context, int tile, int worker), void* task_context, int tiles);
};

struct Args {
  const Call& call;
  Words words;
  int rows;                      // 0: the compiled batch
  std::span<std::byte> scratch;  // of this step, for all workers
  const Workers* workers;        // null: one

  Operands operands() const { return {call.operands(), call.step->operand_count, rows}; }
};

enum OperandFlags : uint8_t { kOptional = 4, kVariadic = 8 };  // beside Role in OperandType::role

struct OperandType {
  ElementType element;
  uint8_t role;  // Role | OperandFlags
};

struct KernelEntry {
  Op op;
  Rounding rounding;
  uint8_t in_place;       // bit i: output 0 may share the bytes of input i exactly
  uint8_t operand_count;  // kVariadic operands count as one
  const OperandType* operands;
  ShapeRule shapes;
  Kernel run;
  bool (*accepts)(const Words& words, const Operands& operands);           // null: always
  size_t (*scratch_bytes)(const Words& words, const Operands& operands);   // null: 0; per worker
  size_t (*prepared_bytes)(const Words& words, const Operands& operands);  // null: 0
  Code (*prepare)(const Args& args);                                       // fills call.prepared
  uint64_t (*work)(const Words& words, const Operands& operands);          // multiply-accumulates; null: none
};

}  // namespace nacre

// A port's or a model's list of kernels: sorted by op, those of one op in the order in which they are asked. Outside
// the namespace, because it is C's opaque `nacre_kernels` (nacre_c.h) too.
struct nacre_kernels {
  const char* name;  // "reference", "x86/avx2"
  std::span<const nacre::KernelEntry* const> entries;
};

namespace nacre {

using KernelSet = ::nacre_kernels;

}  // namespace nacre
