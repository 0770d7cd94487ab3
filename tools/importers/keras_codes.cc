// Quantized layers: the variables that stand for a kernel become the kernel that they mean.
//
//   int8    codes q [as the kernel], kernel_scale = 127 / max |w| per channel           w = q / scale
//   int4    two codes a byte along the last axis, low bits first; kernel_scale, kernel_zero [groups, channels],
//           g_idx [rows]: the group of a row                                            w = (q - zero) scale
//           per channel: kernel_scale alone                                             w = q / scale
//   float8  the kernel itself, and scales and amax histories: inputs_scale fills the history of the input
//
// The policy that comes in with the layer makes the same codes of w again: of int8 |w| is largest where |q| = 127.
#include <algorithm>
#include <cmath>

#include "tools/importers/keras.h"

namespace nacre::tools::keras {
namespace {

constexpr float kLargestE4M3 = 448;

// Where variable `name` is: the file names it, or it stands at `place`.
std::optional<size_t> find(const Weights& weights, const std::string& name, size_t place) {
  for (size_t i = 0; i < weights.count(); ++i) {
    std::string path = weights.path(i);
    if (path.ends_with(":0")) path.resize(path.size() - 2);
    if (path.ends_with("/" + name)) return i;
  }
  const bool by_place = weights.count() > 0 && weights.path(0).ends_with("vars/0");
  return by_place && place < weights.count() ? std::optional<size_t>(place) : std::nullopt;
}

std::vector<float> unpacked(const Hdf5Dataset& packed, int64_t columns) {
  const int64_t width = packed.dims.back(), rows = packed.elements() / std::max<int64_t>(width, 1);
  std::vector<float> codes;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const int byte = packed.bytes[size_t(r * width + c / 2)], half = c % 2 == 0 ? byte & 15 : byte >> 4;
      codes.push_back(float(half >= 8 ? half - 16 : half));
    }
  return codes;
}

struct Found {
  std::optional<size_t> kernel, bias, scale, zero, groups;
};

// w [rows, columns] of codes with a scale per column, or per row of an embedding.
void divide(const Call& call, std::vector<float>& w, const std::vector<float>& scale, bool by_row) {
  if (scale.empty() || w.size() % scale.size() != 0) call.bad("scales that do not fit its kernel");
  const size_t inner = w.size() / scale.size();
  for (size_t i = 0; i < w.size(); ++i) w[i] /= scale[by_row ? i / inner : i % scale.size()];
}

void by_groups(const Call& call, std::vector<float>& w, const Found& at, int64_t columns) {
  const std::vector<float> scale = call.weights[*at.scale].reals(), zero = call.weights[*at.zero].reals(),
                           group = call.weights[*at.groups].reals();
  const auto rows = size_t(int64_t(w.size()) / columns), width = size_t(columns);
  if (group.size() != rows || scale.size() != zero.size() || scale.size() % width != 0)
    call.bad("scales that do not fit its kernel");
  for (size_t i = 0; i < w.size(); ++i) {
    const float g = group[i / width];
    if (!(g >= 0 && g < float(scale.size() / width))) call.bad("a group that it does not have");
    const size_t s = size_t(g) * width + i % width;
    w[i] = (w[i] - zero[s]) * scale[s];
  }
}

// Sizes of a kernel that the file has packed: [in, out] of what the layer says.
std::vector<int64_t> kernel_dims(const Call& call, const Hdf5Dataset& stored, const Found& at) {
  if (call.class_name == "Embedding") return {stored.dims[0], call.integer("output_dim", 1)};
  if (call.class_name == "Dense") return {stored.dims[0], call.integer("units", 1)};
  if (!at.bias) call.unsupported("an int4 EinsumDense without a bias, whose kernel has no shape in the file");
  std::vector<int64_t> dims = call.weights[*at.bias].dims;
  dims.insert(dims.begin(), stored.dims[0]);
  return dims;
}

void fill_history(Call& call) {
  const bool biased = call.find("bias_axes") != nullptr || (call.class_name == "Dense" && call.flag("use_bias", true));
  const auto at = find(call.weights, "inputs_scale", biased ? 2 : 1);
  if (!at || call.weights[*at].elements() != 1 || call.inputs.empty()) return;
  const float amax = call.weights[*at].reals()[0] * kLargestE4M3;
  if (!(amax > 0 && amax < kInfinity)) return;
  std::vector<float>& amaxes = call.value(call.inputs[0]).amaxes;
  if (amaxes.empty()) amaxes = {amax};
  else amaxes[0] = std::max(amaxes[0], amax);
  call.note(
      "float8: the scale of its input is the file's; that of its kernel is made of the kernel, and the histories "
      "for gradients begin anew");
}

}  // namespace

void decode_kernel(Call& call, const std::string& mode) {
  if (mode == "float8") return fill_history(call);
  const bool embedding = call.class_name == "Embedding", int4 = mode.starts_with("int4");
  if (mode != "int8" && !int4) call.unsupported("codes of " + mode + ": give the network before it was quantized");
  const std::string kernel = embedding ? "embeddings" : "kernel";
  const bool biased = call.find("bias_axes") != nullptr || (call.class_name == "Dense" && call.flag("use_bias", true));
  const size_t next = embedding ? 1 : int4 || biased ? 2 : 1;
  Found at = {find(call.weights, kernel, 0), biased ? find(call.weights, "bias", 1) : std::nullopt,
              find(call.weights, kernel + "_scale", next), find(call.weights, kernel + "_zero", next + 1),
              find(call.weights, "g_idx", next + 2)};
  if (int4 && !biased && !embedding && at.scale && call.weights.count() > 1 &&
      call.weights[1].dims.size() == 2) {  // without a bias the others move up
    at.scale = find(call.weights, kernel + "_scale", 1);
    at.zero = find(call.weights, kernel + "_zero", 2);
    at.groups = find(call.weights, "g_idx", 3);
  }
  if (!at.kernel || !at.scale) call.bad("has no codes or no scale");
  const Hdf5Dataset& stored = call.weights[*at.kernel];
  if (stored.type != ElementType::kInt8 || stored.dims.empty()) return;  // the kernel itself
  auto made = std::make_shared<Hdf5Dataset>();
  made->type = ElementType::kFloat32;
  made->dims = int4 ? kernel_dims(call, stored, at) : stored.dims;
  int64_t columns = 1;
  for (size_t i = 1; i < made->dims.size(); ++i) columns *= made->dims[i];
  if (int4 && (stored.dims.back() != (columns + 1) / 2 || stored.dims.size() != 2))
    call.bad("packed codes of shape " + dims_text(stored.dims) + " for a kernel of shape " + dims_text(made->dims));
  std::vector<float> w = int4 ? unpacked(stored, columns) : stored.reals();
  if (int4 && at.zero && at.groups && !embedding) {
    by_groups(call, w, at, columns);
  } else if (int4 && at.zero && at.groups) {
    call.unsupported("an int4 table in groups: quantize it to int8");
  } else {
    divide(call, w, call.weights[*at.scale].reals(), embedding);
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(w.data());
  made->bytes.assign(bytes, bytes + w.size() * sizeof(float));
  call.weights = call.weights.with_kernel(std::move(made), *at.kernel, at.bias);
}

}  // namespace nacre::tools::keras
