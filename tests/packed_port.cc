#include "tests/packed_port.h"

#include "engine/kernels/adapter.h"
#include "engine/ops/conv.h"
#include "engine/ops/dense.h"

namespace nacre::test {
namespace {

// Wraps a reference kernel whose weights are in another layout.
template <class O, Layout kLayout>
struct Unpacked {
  O op;
  StoredMatrices stored;

  static Unpacked from(const Words& words, const Operands& operands) {
    return {O::from(words, operands), stored_matrices(kLayout, operands[1])};
  }
  uint64_t work() const { return op.work(); }
  static size_t scratch_bytes(const Words&, const Operands& operands) {
    return size_t(storage_bytes(operands.element(1), uint64_t(operands[1].elements())));
  }

  template <class T>
  void forward(const T* x, Packed<const T, kLayout> w, Optional<const T> b, T* y, Scratch<T> rows) const {
    op.forward(x, row_major(w.data, rows), b, y);
  }
  template <class T>
  void forward_fused(const T* x, Packed<const T, kLayout> w, Optional<const T> b, Optional<const T> residual, T* y,
                     Scratch<T> rows) const {
    op.forward_fused(x, row_major(w.data, rows), b, residual, y);
  }
  void forward_int8(const int8_t* x, Packed<const int8_t, kLayout> w, Optional<const int32_t> b, const int32_t* scale,
                    int8_t* y, Scratch<int8_t> rows) const {
    op.template forward_int8<Rounding::kDouble>(x, row_major(w.data, rows), b, scale, y);
  }
  void gradient_x(const float* dy, Packed<const float, kLayout> w, float* dx, Scratch<float> rows) const {
    op.forward(dy, row_major(w.data, rows), dx);
  }

 private:
  template <class T>
  const T* row_major(const T* packed, Scratch<T> rows) const {
    stored.each(of_channels(kLayout), [&](size_t index, size_t at) { rows.data[index] = packed[at]; });
    return rows.data;
  }
};

template <class T, class O, Layout kLayout, class Of = Unpacked<O, kLayout>>
constexpr KernelEntry real(Op op) {
  return entry<Of, &Of::template forward<T>, &O::shapes>(op);
}
template <class T, class O, Layout kLayout, class Of = Unpacked<O, kLayout>>
constexpr KernelEntry fused(Op op) {
  return entry<Of, &Of::template forward_fused<T>, &O::shapes_fused>(op, Rounding::kNone, 1 << O::kResidual);
}
template <class O, Layout kLayout, class Of = Unpacked<O, kLayout>>
constexpr KernelEntry int8(Op op) {
  return entry<Of, &Of::forward_int8, &O::shapes>(op, Rounding::kDouble);
}
using GradientX = Unpacked<DenseGradientX, kGradientLayout>;

constexpr KernelEntry kDense = real<float, Dense, kDenseLayout>(Op::kDense);
constexpr KernelEntry kDenseF16 = real<Float16, Dense, kDenseLayout>(Op::kDense);
constexpr KernelEntry kDenseFused = fused<float, Dense, kDenseLayout>(Op::kDense);
constexpr KernelEntry kDenseInt8 = int8<Dense, kDenseInt8Layout>(Op::kDense);
constexpr KernelEntry kConv = real<float, Conv2d, kConvLayout>(Op::kConv2d);
constexpr KernelEntry kConvF16 = real<Float16, Conv2d, kConvLayout>(Op::kConv2d);
constexpr KernelEntry kConvFused = fused<float, Conv2d, kConvLayout>(Op::kConv2d);
constexpr KernelEntry kConvInt8 = int8<Conv2d, kConvInt8Layout>(Op::kConv2d);
constexpr KernelEntry kGradientX =
    entry<GradientX, &GradientX::gradient_x, &DenseGradientX::shapes>(Op::kDenseGradientX);

constexpr const KernelEntry* kEntries[] = {&kDense,   &kDenseF16,  &kDenseFused, &kDenseInt8, &kConv,
                                           &kConvF16, &kConvFused, &kConvInt8,   &kGradientX};
constexpr KernelSet kSet = {"packed", kEntries};
constexpr Port kPort = {.name = "packed",
                        .set = &kSet,
                        .context = nullptr,
                        .begin = nullptr,
                        .finish = nullptr,
                        .copy = nullptr,
                        .fill = nullptr,
                        .alignment = 64};

}  // namespace

const KernelSet& packed_kernels() { return kSet; }
const Port& packed_port() { return kPort; }

}  // namespace nacre::test
