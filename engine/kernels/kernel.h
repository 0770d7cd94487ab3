// Defines the interface between programs and ports. A Kernel runs one bound step. A KernelEntry says what a kernel
// can run. A KernelSet is a list of entries. A Port is a KernelSet and the memory that its kernels see.
//
// bind() takes the first entry that accepts a step. It asks the port of the step's place (run/places.h), then the port
// of place 0, then the sets that the caller passed, in their order. The reference kernels usually come last.
//
// Example:
//   static constexpr auto serial = [](void*, void (*task)(void* task_context, int tile, int worker),
//                                     void* task_context, int tiles) {
//     for (int tile = 0; tile < tiles; ++tile) task(task_context, tile, 0);   // any thread may take any tile
//   };
//   static const Workers workers = {.context = nullptr, .count = 1, .run = serial};
//   NACRE_TRY(program.bind(model, 0, kernels, memory, &workers));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/ops/op.h"

namespace nacre {

struct Args;
// Runs one step. Returns kOk, kIndex (an index in the data is out of range) or a port's code.
using Kernel = Code (*)(const Args& args);

// The record that bind stores per step in the caller's memory. The step's operands follow it. On 32 bits it takes 12
// bytes, and 8 bytes for each operand.
struct Call {
  Kernel run;
  const StepRecord* step;  // in the model's bytes, or in a static program's tables
  void* prepared;          // bytes of the entry's Preparation, in the block kPrepared; of a static program: the op

  NACRE_SHARED const Tensor* operands() const { return reinterpret_cast<const Tensor*>(this + 1); }
  NACRE_SHARED Tensor* operands() { return reinterpret_cast<Tensor*>(this + 1); }
};
static_assert(sizeof(Call) == 3 * sizeof(void*) && sizeof(Tensor) == 2 * sizeof(void*));

// The caller's threads (ports/threads/threads.h has some). run() returns after it has called task(task_context, i,
// worker) once for each i in [0, tiles), and all calls have returned. Two calls that run at one time have different
// numbers `worker`, each in [0, count). The struct must stay in place while a program is bound with it.
struct Workers {
  void* context;  // first argument of run
  int count;      // workers, the thread that runs the program included; at least 1
  void (*run)(void* context, void (*task)(void* task_context, int tile, int worker), void* task_context, int tiles);
  // One worker does a whole step that has less work than this, in multiply-accumulates of float32: about 4 us with
  // AVX2. To wake a worker that spins takes 1 to 2 us; threads that sleep between steps need more. A program without
  // a step of eight times this, nor 32 times this in all, shares nothing (threads_pay, run/pass.h).
  uint64_t least_work = 200'000;
};

// Returns the distance from one worker's scratch to the next one's: whole cache lines.
NACRE_SHARED constexpr size_t scratch_stride(size_t bytes) { return (bytes + 63) / 64 * 64; }

// All that a kernel is told.
struct Args {
  const Call& call;
  Words words;                   // attributes of the step
  int rows;                      // 0 means the compiled batch
  std::span<std::byte> scratch;  // scratch of worker 0: at least scratch_bytes()
  const Workers* workers;        // null means one worker
  void* context = nullptr;       // context of the port whose kernel this is
  int phase = 0;                 // phase of a kernel that a device launches several times (ops/parts.h); 0 means all

  // Returns the scratch of one worker. All workers have the same size; their starts are whole cache lines apart.
  NACRE_SHARED std::span<std::byte> scratch_of(int worker) const {
    return {scratch.data() + size_t(worker) * scratch_stride(scratch.size()), scratch.size()};
  }

  NACRE_SHARED Operands operands() const { return {call.operands(), call.step->operand_count, rows}; }
};

enum OperandFlags : uint8_t { kOptional = 4, kVariadic = 8 };  // combined with Role in OperandType::role

// The type that a kernel demands of an operand.
struct OperandType {
  ElementType element;
  uint8_t role;  // Role | OperandFlags
  Layout layout = Layout::kRowMajor;
};

// Data that a kernel makes at bind and keeps for its runs, such as a library's handle or a table of packed weights.
struct Preparation {
  size_t (*bytes)(const Words& words, const Operands& operands);
  // Fills call.prepared: `bytes` on the host, at a multiple of 16. bind returns any other code than kOk.
  Code (*prepare)(const Args& args);
  void (*release)(void* context, void* prepared);  // or null; called once, at unbind, if bound to Places
};

// One kernel, and the steps that it takes: steps with this op, rounding, types and roles, whose shapes `shapes` and
// `accepts` both take.
struct KernelEntry {
  Op op;
  Rounding rounding;
  uint8_t in_place;             // bit i: output 0 may share the bytes of input i exactly
  uint8_t operand_count;        // kVariadic operands count as one
  const OperandType* operands;  // operand_count types: inputs, then outputs
  ShapeRule shapes;             // computes the shapes of the outputs (ops/op.h)
  Kernel run;                   // null: not compiled for this machine; such an entry must not be bound
  bool (*accepts)(const Words& words, const Operands& operands);          // null means always
  size_t (*scratch_bytes)(const Words& words, const Operands& operands);  // per worker; null means 0
  const Preparation* preparation;                                         // null if there is none
  uint64_t (*work)(const Words& words, const Operands& operands);         // multiply-accumulates; null means 0
};

}  // namespace nacre

// A port's or a model's list of kernels, sorted by op. Entries of one op are asked in their order. It stands outside
// the namespace because it is also C's opaque `nacre_kernels` (nacre_c.h).
struct nacre_kernels {
  const char* name;  // "reference", "x86/avx2"
  std::span<const nacre::KernelEntry* const> entries;
};

namespace nacre {

using KernelSet = ::nacre_kernels;

enum class CopyDirection : uint8_t { kToPort, kFromPort, kWithinPort };

// A device or a library. `begin` and `finish` are both set or both null. So are `copy` and `fill`, which are null if
// the port sees the host's memory. Each function returns kOk, or another code if it failed. Between begin and finish
// a port may defer what it is asked to do. The memory that it was told to copy must not change until finish.
struct Port {
  const char* name;  // "x86/avx512", "cuda"
  const KernelSet* set;
  void* context;                  // first argument of the functions below, and Args::context of its kernels
  Code (*begin)(void* context);   // called before the steps of a segment and the copies for them
  Code (*finish)(void* context);  // called after them; when it returns, steps and copies are done
  // Copies between the host's memory and the port's, or within the port's. The copied bytes can be read when it
  // returns, or, in a segment, when `finish` returns.
  Code (*copy)(void* context, CopyDirection direction, void* to, const void* from, size_t bytes);
  Code (*fill)(void* context, void* to, std::byte value, size_t bytes);  // in the port's memory
  uint32_t alignment = kAlignment;  // of the memory that its kernels see: a power of two from 16 to 4,096
  // Most bytes that its kernels may read past a block: at most 4,096. On the host they may not read past weights.
  uint32_t tail_bytes = 0;
  // If true, its kernels read the guard of their step (a word that says whether to run it), the operand after the
  // others. Else the host reads the guard, and calls `copy` for it in the middle of a segment.
  bool reads_guards = false;
  // Both are set or both null. Between hold and release the port may defer all that its segments ask for, copies to
  // the host included, and then runs it at once. release returns the first failure. If `drop` is true, nothing is
  // run. `ran` tells whether all of it was run to its end, even if a kernel failed; else none of it was.
  Code (*hold)(void* context) = nullptr;
  Code (*release)(void* context, bool drop, bool* ran) = nullptr;
};

}  // namespace nacre
