// Imports Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Identity, Dropout, Shape and Size. Constants are rearranged
// at import. All shapes are known at import.
#include <algorithm>
#include <functional>
#include <numeric>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

int64_t product(std::vector<int64_t>::const_iterator first, std::vector<int64_t>::const_iterator last) {
  return std::accumulate(first, last, int64_t{1}, std::multiplies<>());
}

void give_reshaped(Import& import, const Source& source, const OperandPtr& x, const std::vector<int64_t>& dims) {
  if (checked_elements(source.place, dims) != product(x->dims.begin(), x->dims.end()))
    source.malformed("changes the number of elements");
  if (dims == x->dims) return import.give(0, x);
  if (x->constant) return import.give_moved(0, x, Move::reshape(dims), reshaped(*x->constant, dims));
  import.give_plain(0, import.reshaped(import.plain(x), dims, import.output_name()));
}

// Imports Reshape. In its shape 0 copies a size of x (unless allowzero is set), and -1 is the remaining size.
void reshape(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  std::vector<int64_t> dims = source.has("shape") ? source.integers("shape") : source.constant_integers(1, "its shape");
  const bool zeros = source.integer("allowzero", 0) != 0;
  const int64_t elements = product(x->dims.begin(), x->dims.end());
  if (elements == 0 && !x->constant) source.refuse("its input is empty: it has no elements");
  int64_t known = 1;
  auto open = dims.end();
  for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
    const size_t axis = size_t(dim - dims.begin());
    if (*dim == 0 && !zeros) {
      if (axis >= x->dims.size()) source.malformed("its shape copies an axis that its input has not");
      *dim = x->dims[axis];
    }
    if (*dim < -1 || (*dim == -1 && open != dims.end())) source.malformed("its shape has a negative dim, or -1 twice");
    if (*dim == -1) {
      open = dim;
    } else if (__builtin_mul_overflow(known, *dim, &known) || (elements > 0 && known > elements)) {
      source.malformed("changes the number of elements");
    }
  }
  if (open != dims.end()) {
    if (known == 0 || elements % known != 0) source.malformed("changes the number of elements");
    *open = elements / known;
  }
  give_reshaped(import, source, x, dims);
}

void flatten(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const int64_t given = source.integer("axis", 1), rank = x->rank();
  if (given < -rank || given > rank) source.malformed("its axis is outside the rank");
  const auto split = x->dims.begin() + (given < 0 ? given + rank : given);
  give_reshaped(import, source, x, {product(x->dims.begin(), split), product(split, x->dims.end())});
}

// Reshapes an x that exists in channels_last alone in that layout. The caller only adds or drops spatial axes of size
// 1, as from [n, c, w] to [n, c, 1, w]. Returns whether it did.
bool reshape_spatial(Import& import, const OperandPtr& x, const std::vector<int64_t>& dims) {
  if (x->constant || x->plain != kNone || !x->prefers_channels_last() || dims.size() < 2) return false;
  if (dims[0] != x->dims[0] || dims[1] != x->dims[1]) return false;
  const ValueId last = import.channels_last(x);
  import.give_channels_last(0, import.reshaped(last, channels_last_dims(dims), import.output_name()));
  return true;
}

// Imports Squeeze. Axes are an attribute until opset 12, an input from opset 13 on.
void squeeze(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const std::optional<std::vector<int64_t>> axes = source.integers_or_input("axes", 1);
  std::vector<bool> gone(x->dims.size());
  bool spatial = true;
  if (axes)
    for (const int64_t given : *axes) gone[size_t(source.axis(given, x->rank()))] = true;
  std::vector<int64_t> dims;
  for (size_t i = 0; i < x->dims.size(); ++i) {
    if (!axes) gone[i] = x->dims[i] == 1;
    if (gone[i] && x->dims[i] != 1) source.malformed("squeezes an axis of another size than 1");
    if (!gone[i]) dims.push_back(x->dims[i]);
    spatial &= !gone[i] || i > 1;
  }
  if (spatial && reshape_spatial(import, x, dims)) return;
  give_reshaped(import, source, x, dims);
}

void unsqueeze(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const std::optional<std::vector<int64_t>> axes = source.integers_or_input("axes", 1);
  if (!axes) source.malformed("has no axes");
  const int rank = x->rank() + int(axes->size());
  std::vector<bool> made(size_t(rank), false);
  bool spatial = true;
  for (const int64_t given : *axes) {
    const int axis = source.axis(given, rank);
    if (made[size_t(axis)]) source.malformed("makes an axis twice");
    made[size_t(axis)] = true;
    spatial &= axis > 1;
  }
  std::vector<int64_t> dims;
  for (size_t i = 0, from = 0; i < size_t(rank); ++i) dims.push_back(made[i] ? 1 : x->dims[from++]);
  if (spatial && reshape_spatial(import, x, dims)) return;
  give_reshaped(import, source, x, dims);
}

// A transpose may exchange the two layouts. The value then stays and only its layout changes.
void transpose(Import& import, const Source& source) {
  const OperandPtr& x = source.operand(0);
  const int rank = x->rank();
  std::vector<int64_t> given(x->dims.size());
  for (int i = 0; i < rank; ++i) given[size_t(i)] = rank - 1 - i;
  given = source.integers("perm", given);
  std::vector<int> perm(given.begin(), given.end());
  std::vector<int> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < int(sorted.size()); ++i)
    if (sorted[size_t(i)] != i || int(sorted.size()) != rank)
      source.malformed("its perm is no permutation of its input's axes");
  if (x->constant) {
    import.spend(x->constant->data->size());
    return import.give_moved(0, x, Move::transpose(perm), permuted(*x->constant, perm));
  }
  if (rank > 2 && perm == to_channels_last(rank) && x->channels_last != kNone)
    return import.give_plain(0, x->channels_last);
  if (rank > 2 && perm == from_channels_last(rank)) return import.give_channels_last(0, import.plain(x));
  import.give_plain(0, import.transposed(import.plain(x), perm, import.output_name()));
}

void identity(Import& import, const Source& source) {
  import.give(0, import.parameters().under_new_name(source.operand(0)));
}

// Imports Dropout in training_mode as the op dropout. `differentiate` gives it random numbers; a program for inference
// leaves it out.
void training_dropout(Import& import, const Source& source, float ratio) {
  const OperandPtr& x = source.operand(0);
  need_float32(source, *x);
  if (!(ratio > 0 && ratio < 1)) source.malformed("its ratio is outside [0, 1)");
  if (source.wants(1)) source.refuse("training_mode is set, and its mask is used");
  Node node = import.step(Op::kDropout);
  set_real(node, "rate", ratio);
  const bool last = x->prefers_channels_last();
  node.inputs = {last ? import.channels_last(x) : import.plain(x)};
  const ValueId y = import.append(std::move(node), import.output_name());
  last ? import.give_channels_last(0, y) : import.give_plain(0, y);
}

void dropout(Import& import, const Source& source) {
  const float ratio = source.given(1) ? source.constant_real(1, "its ratio") : source.real("ratio", 0.5f);
  const bool training = source.given(2) && source.constant_real(2, "its training_mode") != 0;
  if (training && ratio != 0) return training_dropout(import, source, ratio);
  if (source.opset < 7 && source.integer("is_test", 0) == 0)
    source.refuse("is_test is not set", "export for inference");
  import.give(0, source.operand(0));
  if (!source.wants(1)) return;
  const std::vector<int64_t>& dims = source.operand(0)->dims;  // the sizes of the mask, which is true everywhere
  import.spend(uint64_t(checked_elements(source.place, dims)));
  import.give_constant(1, expanded(make_constant("", ElementType::kBool, {}, std::vector<int64_t>{1}), dims));
}

// Imports Shape, with `start` and `end` from opset 15 on.
void shape(Import& import, const Source& source) {
  const std::vector<int64_t>& dims = source.operand(0)->dims;
  const auto rank = int64_t(dims.size());
  const auto bound = [&](int64_t axis) { return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank); };
  const int64_t start = bound(source.integer("start", 0)), end = std::max(start, bound(source.integer("end", rank)));
  const std::vector<int64_t> part(dims.begin() + start, dims.begin() + end);
  import.give_constant(0, make_constant("", ElementType::kInt64, {end - start}, part));
}

void size(Import& import, const Source& source) {
  const std::vector<int64_t>& dims = source.operand(0)->dims;
  import.give_constant(
      0, make_constant("", ElementType::kInt64, {}, std::vector<int64_t>{product(dims.begin(), dims.end())}));
}

constexpr OperatorImporter kShapeImporters[] = {
    {"Reshape", reshape},     {"Flatten", flatten},     {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze}, {"Transpose", transpose}, {"Identity", identity},
    {"Dropout", dropout},     {"Shape", shape},         {"Size", size},
};

}  // namespace

std::span<const OperatorImporter> shape_importers() { return kShapeImporters; }

}  // namespace nacre::tools::onnx_import
