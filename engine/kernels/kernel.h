// The seam between programs and ports: a Kernel runs one bound step; a KernelEntry says what it can run; a KernelSet is
// a list of entries; a Port is a set and the memory that its kernels see.
//
// bind() takes the first entry that accepts a step: of the port that the step's place names (run/places.h), then of the
// sets that the caller passed, in their order; the reference kernels usually come last.
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

// Record that bind stores per step in the caller's memory: 12 + 8 bytes per operand at 32 bits. Operands follow.
struct Call {
  Kernel run;
  const StepRecord* step;
  void* prepared;

  NACRE_SHARED const Tensor* operands() const { return reinterpret_cast<const Tensor*>(this + 1); }
  NACRE_SHARED Tensor* operands() { return reinterpret_cast<Tensor*>(this + 1); }
};
static_assert(sizeof(Call) == 3 * sizeof(void*) && sizeof(Tensor) == 2 * sizeof(void*));

// The caller's threads. run() returns when task(task_context, i) has been called once for each i in [0, tiles).
struct Workers {
  void* context;
  int count;
  void (*run)(void* context, void (*task)(void* task_context, int tile, int worker), void* task_context, int tiles);
  // One worker does all of a step of less work, in multiply-accumulates of float32. These take some 4 us with AVX2, and
  // to wake a worker that spins takes 1 to 2 us. Threads that sleep between steps need more. A program whose
  // steps are smaller on average shares nothing (threads_pay, run/pass.h).
  uint64_t least_work = 200'000;
};

// Returns the distance from one worker's scratch to the next one's: whole lines of a cache.
NACRE_SHARED constexpr size_t scratch_stride(size_t bytes) { return (bytes + 63) / 64 * 64; }

struct Args {
  const Call& call;
  Words words;
  int rows;                      // 0: the compiled batch
  std::span<std::byte> scratch;  // of worker 0: at least scratch_bytes()
  const Workers* workers;        // null: one
  void* context = nullptr;       // of the port whose kernel this is
  int phase = 0;                 // of a kernel that a device launches several times (ops/parts.h); 0: all of it

  // Returns the scratch of worker w: each has as many bytes, and no two workers write one line of a cache.
  NACRE_SHARED std::span<std::byte> scratch_of(int worker) const {
    return {scratch.data() + size_t(worker) * scratch_stride(scratch.size()), scratch.size()};
  }

  NACRE_SHARED Operands operands() const { return {call.operands(), call.step->operand_count, rows}; }
};

enum OperandFlags : uint8_t { kOptional = 4, kVariadic = 8 };  // beside Role in OperandType::role

struct OperandType {
  ElementType element;
  uint8_t role;  // Role | OperandFlags
  Layout layout = Layout::kRowMajor;
};

// Data that a kernel makes at bind and keeps: a library's handle. Nothing in it can be a tensor.
struct Preparation {
  size_t (*bytes)(const Words& words, const Operands& operands);
  Code (*prepare)(const Args& args);               // fills call.prepared: `bytes` on the host, at a multiple of 16
  void (*release)(void* context, void* prepared);  // or null; once, at unbind; only of programs bound to Places
};

struct KernelEntry {
  Op op;
  Rounding rounding;
  uint8_t in_place;       // bit i: output 0 may share the bytes of input i exactly
  uint8_t operand_count;  // kVariadic operands count as one
  const OperandType* operands;
  ShapeRule shapes;
  Kernel run;
  bool (*accepts)(const Words& words, const Operands& operands);          // null: always
  size_t (*scratch_bytes)(const Words& words, const Operands& operands);  // null: 0; per worker
  const Preparation* preparation;                                         // null: none
  uint64_t (*work)(const Words& words, const Operands& operands);         // multiply-accumulates; null: none
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

enum class CopyDirection : uint8_t { kToPort, kFromPort, kWithinPort };

// A device or a library. `begin` and `finish` are both there or both null; so are `copy` and `fill`, which a port that
// sees the host's memory does not have. Each returns kOk, or another code where it failed. Between begin and finish a
// port may put off whatever it is asked: what it was told to copy must stay as it is until finish.
struct Port {
  const char* name;  // "x86/avx512", "cuda"
  const KernelSet* set;
  void* context;                  // first argument of what follows, and Args::context of its kernels
  Code (*begin)(void* context);   // before the steps of a segment and what is copied for them
  Code (*finish)(void* context);  // behind them: when it returns they are done, and so are all copies
  // Copies between the host's memory and the port's, or within it. When it returns, or in a segment when `finish`
  // does, the bytes can be read where they were copied to.
  Code (*copy)(void* context, CopyDirection direction, void* to, const void* from, size_t bytes);
  Code (*fill)(void* context, void* to, std::byte value, size_t bytes);  // in the port's memory
  uint32_t alignment = kAlignment;  // of the memory that its kernels see: a power of two from 16 to 4,096
  // that its kernels may read behind a block: at most 4,096; on the host not behind weights
  uint32_t tail_bytes = 0;
  // True: its kernels look at the guard of their step, the operand behind the others. Else the host does, and asks
  // `copy` for the word in the middle of a segment.
  bool reads_guards = false;
  // Both are there or both null. Between hold and release the port may put off all that its segments are asked for,
  // copies to the host too, and then runs it at once. release returns the first failure; `drop`: nothing is to run.
  // `ran`: whether all of it was run to its end, a kernel that failed included; else none of it was.
  Code (*hold)(void* context) = nullptr;
  Code (*release)(void* context, bool drop, bool* ran) = nullptr;
};

}  // namespace nacre
