// Pools over windows and over everything.
#include <algorithm>

#include "engine/ops/reduce_axes.h"
#include "tools/importers/keras_window.h"

namespace nacre::tools::keras {
namespace {

template <Op kOp, int kSpatial>
void convert_pool(Call& call) {
  need_channels_last(call);
  const ValueId x = as_image(call, call.input(), kSpatial);
  std::vector<int64_t> kernel = call.integers("pool_size", kSpatial, 2);
  std::vector<int64_t> stride = call.given("strides") ? call.integers("strides", kSpatial, 2) : kernel;
  if (kSpatial == 1) {
    kernel.insert(kernel.begin(), 1);
    stride.insert(stride.begin(), 1);
  }
  Node node = call.step(kOp, {x});
  set_window(call, node, call.dims(x), {kernel, stride, {1, 1}, call.text("padding", "valid")});
  set_integer(node, "kernel_h", int(kernel[0]));
  set_integer(node, "kernel_w", int(kernel[1]));
  call.outputs = {from_image(call, call.emit(std::move(node)), kSpatial)};
}

template <bool kMaximum>
void convert_global(Call& call) {
  need_channels_last(call);
  const ValueId x = call.input();
  if (!kMaximum && call.importer->masked().contains(x)) call.unsupported("the mean of a masked sequence");
  std::vector<int> axes;
  for (int i = 1; i + 1 < call.rank(x); ++i) axes.push_back(i);
  if (axes.empty()) call.bad("an input of shape " + dims_text(call.dims(x)));
  const bool keep = call.flag("keepdims", false);
  call.outputs = {kMaximum ? call.reduce(Reduce::kMax, x, axes, keep) : call.mean(x, axes, keep)};
}

constexpr Converter kPoolRows[] = {
    {"AveragePooling1D", &convert_pool<Op::kAveragePool, 1>},
    {"AveragePooling2D", &convert_pool<Op::kAveragePool, 2>},
    {"MaxPooling1D", &convert_pool<Op::kMaxPool, 1>},
    {"MaxPooling2D", &convert_pool<Op::kMaxPool, 2>},
    {"GlobalAveragePooling1D", &convert_global<false>},
    {"GlobalAveragePooling2D", &convert_global<false>},
    {"GlobalMaxPooling1D", &convert_global<true>},
    {"GlobalMaxPooling2D", &convert_global<true>},
};

}  // namespace

std::span<const Converter> pool_converters() { return kPoolRows; }

}  // namespace nacre::tools::keras
