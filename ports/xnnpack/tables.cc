// The entries of the port, and the functions that bind and run use for all entries.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <span>

#include "engine/kernels/adapter.h"
#include "engine/kernels/sorted_list.h"
#include "ports/xnnpack/memory.h"
#include "ports/xnnpack/operators.h"
#include "ports/xnnpack/xnnpack_port.h"

namespace nacre::xnnpack {
namespace {

// The content of call.prepared. The operator's blocks follow it.
struct Prepared {
  xnn_operator_t op = nullptr;  // null: the reference runs the step
  int rows = 0;                 // the rows for which the operator was placed
  void* workspace = nullptr;    // newer versions of the library need it
  size_t workspace_bytes = 0;
};
constexpr size_t kHead = 64;  // bytes reserved for Prepared
static_assert(sizeof(Prepared) <= kHead);

template <class Form>
xnn_status make(const Words& words, const Operands& operands, Arena& arena, Prepared* made) {
  const Allocating from(arena);
  xnn_status status = Form::create(words, operands, &made->op);
  if (status == xnn_status_success)
    status = Form::place(made->op, words, operands, [&](size_t bytes) {
      made->workspace_bytes = bytes;
      return made->workspace = arena.allocate(bytes);
    });
  if (status != xnn_status_success && made->op != nullptr) xnn_delete_operator(made->op);
  if (status != xnn_status_success) made->op = nullptr;
  return status;
}

constinit std::atomic<uint64_t> left_to_reference = 0;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using HeapBlock = std::unique_ptr<void, Free>;

constexpr int kMostOperands = 5;

// Operands whose data are zeros, to make an operator before the real data are known. Scales of codes are halves. No
// data pointer is null.
class BlankOperands {
 public:
  explicit BlankOperands(const Operands& operands) : operands_{tensors_, operands.count, operands.rows} {
    size_t most = 64;
    for (int i = 0; i < operands.count; ++i) {
      tensors_[i] = operands.tensor[i];
      if (operands.has(i)) most = std::max(most, size_t(operands.tensor[i].record->bytes));
    }
    zeros_.reset(std::calloc(most, 1));
    scales_.reset(std::malloc(most));
    if (!valid()) return;
    for (Tensor& tensor : std::span(tensors_, size_t(operands.count))) tensor.data = zeros_.get();
    constexpr int kScale = 3;
    if (operands.count == 5)
      std::fill_n(static_cast<float*>(tensors_[kScale].data = scales_.get()), operands[kScale].elements(), 1.0f / 2);
  }
  bool valid() const { return zeros_ != nullptr && scales_ != nullptr; }
  const Operands& operands() const { return operands_; }

 private:
  Tensor tensors_[kMostOperands];
  Operands operands_;
  HeapBlock zeros_, scales_;
};

// Returns the bytes of an operator's blocks, by making it in memory that is large enough; 0 if that fails.
template <class Form>
size_t arena_bytes(const Words& words, const Operands& operands) {
  const BlankOperands blank(operands);
  if (!is_usable() || !blank.valid()) return 0;
  for (size_t bytes = size_t{4} << 20; bytes <= SIZE_MAX / 4; bytes *= 4) {
    const HeapBlock memory(std::malloc(bytes));
    if (memory == nullptr) return 0;
    Arena arena(static_cast<std::byte*>(memory.get()), bytes);
    Prepared made;
    const xnn_status status = make<Form>(words, blank.operands(), arena, &made);
    if (status == xnn_status_success) xnn_delete_operator(made.op);
    if (!arena.overflowed()) return status == xnn_status_success ? arena.most() : 0;
  }
  return 0;
}

template <class Form>
size_t prepared_bytes_of(const Words& words, const Operands& operands) {
  return kHead + Arena::kAlignment + arena_bytes<Form>(words, operands);
}

// Makes the operator, or leaves the step to the reference if the results might differ. Returns kMemorySize if the
// operator needs more than was measured, kPortFailed if XNNPACK refuses it or it could not be measured.
template <class Form>
Code prepare_of(const Args& args) {
  auto* const prepared = new (args.call.prepared) Prepared;
  const Operands operands = args.operands();
  if (!Form::exact(args.words, operands)) return ++left_to_reference, Code::kOk;
  const size_t bytes = prepared_bytes_of<Form>(args.words, operands) - kHead;
  Arena arena(static_cast<std::byte*>(args.call.prepared) + kHead, bytes);
  if (make<Form>(args.words, operands, arena, prepared) == xnn_status_success) return Code::kOk;
  return bytes > Arena::kAlignment && arena.overflowed() ? Code::kMemorySize : Code::kPortFailed;
}

// Gives the operator's memory back to the caller, without a call of the heap.
void release(void*, void* prepared) {
  xnn_operator_t& op = static_cast<Prepared*>(prepared)->op;
  if (op != nullptr) xnn_delete_operator(op);
  op = nullptr;
}

template <class Form, Kernel kReference>
Code run_of(const Args& args) {
  auto& prepared = *static_cast<Prepared*>(args.call.prepared);
  if (prepared.op == nullptr) return kReference(args);
  if (prepared.rows != args.rows) {
    prepared.rows = -1;
    // Fewer rows need no more memory, and without an arena XNNPACK gets none.
    const auto kept = [&](size_t bytes) { return bytes <= prepared.workspace_bytes ? prepared.workspace : nullptr; };
    if (Form::place(prepared.op, args.words, args.operands(), kept) != xnn_status_success) return Code::kPortFailed;
    prepared.rows = args.rows;
  }
  return xnn_run_operator(prepared.op, nullptr) == xnn_status_success ? Code::kOk : Code::kPortFailed;
}

template <class Form>
bool accepts_of(const Words& words, const Operands& operands) {
  return is_usable() && Form::accepts(words, operands);
}

template <class Form>
constexpr Preparation kPreparationOf = {&prepared_bytes_of<Form>, &prepare_of<Form>, &release};

// Returns the reference's entry of `Method`, with XNNPACK's operator in place of its kernel.
template <class Form, class O, auto Method>
constexpr KernelEntry entry_of(Op op, Rounding rounding, uint8_t in_place) {
  KernelEntry made = entry<O, Method>(op, rounding, in_place);
  static_assert(Adapter<O, Method>::kOperandCount <= kMostOperands && !Adapter<O, Method>::kScratch);
  made.run = &run_of<Form, &Adapter<O, Method>::run>;
  made.accepts = &accepts_of<Form>;
  made.preparation = &kPreparationOf<Form>;
  return made;
}

struct Line {
  const char* name;
  KernelEntry entry;
};
template <class Form, class O, auto Method>
constexpr Line line(const char* name, Op op, uint8_t in_place = 0, Rounding rounding = Rounding::kNone) {
  return {name, entry_of<Form, O, Method>(op, rounding, in_place)};
}
template <class O>
constexpr Line codes(const char* name, Op op) {
  return line<CodeProduct<O>, O, &O::template forward_int8<Rounding::kFloatEven>>(name, op, 0, Rounding::kFloatEven);
}
template <class O>
constexpr Line reals(const char* name, Op op) {
  return line<RealProduct<O>, O, &O::template forward<float>>(name, op);
}

constexpr Line kLines[] = {
    reals<Dense>("kDenseF32", Op::kDense),
    codes<Dense>("kDenseI8FloatEven", Op::kDense),
    reals<Conv2d>("kConv2dF32", Op::kConv2d),
    codes<Conv2d>("kConv2dI8FloatEven", Op::kConv2d),
    reals<DepthwiseConv2d>("kDepthwiseConv2dF32", Op::kDepthwiseConv2d),
    codes<DepthwiseConv2d>("kDepthwiseConv2dI8FloatEven", Op::kDepthwiseConv2d),
    line<AveragePool, Pool, &Pool::average<float>>("kAveragePoolF32", Op::kAveragePool),
    line<MaxPool<float>, Pool, &Pool::max<float>>("kMaxPoolF32", Op::kMaxPool),
    line<MaxPool<int8_t>, Pool, &Pool::max_int8>("kMaxPoolI8", Op::kMaxPool),
    line<AddForm, Sum, &Sum::add<float>>("kAddF32", Op::kAdd, 3),
    line<SubForm, Sum, &Sum::sub<float>>("kSubF32", Op::kSub, 3),
    line<MulForm, Product, &Product::forward<float>>("kMulF32", Op::kMul, 3),
    line<ClampForm, Clip, &Clip::forward<float>>("kClampF32", Op::kClamp, 1),
    line<SigmoidForm, Activation, &Activation::sigmoid<float>>("kSigmoidF32", Op::kSigmoid, 1),
    line<HardSwishForm, Activation, &Activation::hard_swish<float>>("kHardSwishF32", Op::kHardSwish, 1),
};

constexpr auto sorted_lines() {
  reference::OpEntry listed[std::size(kLines)] = {};
  for (size_t i = 0; i < std::size(kLines); ++i) listed[i] = {kLines[i].entry.op, {kLines[i].name, &kLines[i].entry}};
  return reference::sorted(listed);
}
constexpr auto kList = sorted_lines();
constexpr KernelSet kSet = {"xnnpack", kList.entries};
constexpr Port kPort = {.name = kSet.name,
                        .set = &kSet,
                        .context = nullptr,
                        .begin = nullptr,
                        .finish = nullptr,
                        .copy = nullptr,
                        .fill = nullptr,
                        .alignment = 64,
                        .tail_bytes = XNN_EXTRA_BYTES};

}  // namespace

const Port* port() { return is_usable() ? &kPort : nullptr; }
uint64_t steps_left_to_reference() { return left_to_reference; }
std::span<const reference::NamedEntry> list() { return kList.named; }

}  // namespace nacre::xnnpack
