// Quantized layers: the variables that stand for a kernel become the kernel that they mean.
//
//   int8    codes q [as the kernel], kernel_scale = 127 / max |w| per channel           w = q / scale
//   int4    two codes a byte along the last axis, low bits first; kernel_scale, kernel_zero [groups, channels],
//           g_idx [rows]: the group of a row                                            w = (q - zero) scale
//           of an embedding scale and zero [rows, groups], g_idx [width]
//           per channel: kernel_scale alone                                             w = q / scale
//   float8  the kernel itself, and scales and amax histories: what inference divides by, and where training goes on
//
// The layer's policy comes in with it, and the codes with the kernel (SourceCodes): they are stored as they are where
// the policy is kept.
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

// For each of `count` codes [rows, columns] its scale: one per column, or per row of an embedding.
std::vector<float> scales_of(const Call& call, const std::vector<float>& scale, size_t count, bool by_row) {
  if (scale.empty() || count % scale.size() != 0) call.bad("scales that do not fit its kernel");
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = scale[by_row ? i / (count / scale.size()) : i % scale.size()];
  return all;
}

// The same of what is one per group of rows and column.
std::vector<float> in_groups(const Call& call, const std::vector<float>& of, const std::vector<float>& group,
                             size_t count, size_t columns) {
  if (group.size() != count / columns || of.size() % columns != 0) call.bad("scales that do not fit its kernel");
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) {
    const float g = group[i / columns];
    if (!(g >= 0 && g < float(of.size() / columns))) call.bad("a group that it does not have");
    all[i] = of[size_t(g) * columns + i % columns];
  }
  return all;
}

// Of an embedding one per row and group of columns.
std::vector<float> in_groups_of_rows(const Call& call, const std::vector<float>& of, const std::vector<float>& group,
                                     size_t count) {
  const size_t columns = group.size(), groups = columns == 0 ? 0 : of.size() * columns / std::max<size_t>(count, 1);
  if (groups == 0 || of.size() * columns != groups * count) call.bad("scales that do not fit its kernel");
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) {
    const float g = group[i % columns];
    if (!(g >= 0 && g < float(groups))) call.bad("a group that it does not have");
    all[i] = of[i / columns * groups + size_t(g)];
  }
  return all;
}

// Of an EinsumDense one per place of the axes that its output has too, in the output's order.
std::vector<float> by_equation(const Call& call, const std::vector<float>& scale, const std::vector<int64_t>& dims) {
  const std::string text = call.text("equation", "");
  const size_t comma = text.find(','), arrow = text.find("->");
  std::string w = comma < arrow && arrow != text.npos ? text.substr(comma + 1, arrow - comma - 1) : "";
  std::erase(w, ' ');
  if (w.size() != dims.size()) return {};
  std::vector<int64_t> stride(dims.size(), 0);
  int64_t all = 1, count = 1;
  for (size_t at = text.size(); at-- > arrow;)
    if (const size_t axis = w.find(text[at]); axis != w.npos) stride[axis] = all, all *= dims[axis];
  if (all != int64_t(scale.size())) return {};
  for (const int64_t d : dims) count *= d;
  std::vector<float> made;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    for (size_t axis = dims.size(); axis-- > 0; rest /= dims[axis]) at += rest % dims[axis] * stride[axis];
    made.push_back(scale[size_t(at)]);
  }
  return made;
}

// Whether the axes of an EinsumDense's kernel that are summed come before those that its output has: so Keras packs it.
bool sums_first(const Call& call) {
  const std::string text = call.text("equation", "");
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == text.npos || arrow == text.npos || comma > arrow) return false;
  const auto stays = [&](size_t at) { return text.find(text[at], arrow) != text.npos; };
  for (size_t at = comma + 2; at < arrow; ++at)
    if (stays(at - 1) && !stays(at)) return false;
  return true;
}

// Sizes of a kernel that the file has packed: [in, out], as scales have it where the layer does not say it.
std::vector<int64_t> kernel_dims(const Call& call, const Hdf5Dataset& stored, const Hdf5Dataset& scale) {
  if (call.class_name.ends_with("Embedding")) return {stored.dims[0], call.integer("output_dim", 1)};
  if (call.class_name == "Dense") return {stored.dims[0], call.integer("units", 1)};
  return {stored.dims[0], scale.dims.empty() ? 1 : scale.dims.back()};
}

// "int4/128": 128. 0: a scale per channel.
int64_t block_of(const std::string& mode) {
  const size_t slash = mode.find('/');
  const std::string digits = slash == mode.npos ? "" : mode.substr(slash + 1, 9);
  int64_t block = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return 0;
    block = 10 * block + (c - '0');
  }
  return block;
}

// Scales and histories of input, kernel and gradient, in this order behind kernel and bias.
void read_float8(Call& call) {
  const bool biased = call.find("bias_axes") != nullptr || (call.class_name == "Dense" && call.flag("use_bias", true));
  size_t place = biased ? 2 : 1;
  Float8State state;
  for (const auto& [to, name] :
       {std::pair(&state.x, "inputs"), std::pair(&state.w, "kernel"), std::pair(&state.y, "outputs_grad")})
    for (const auto& [numbers, suffix] : {std::pair(&to->scale, "_scale"), std::pair(&to->history, "_amax_history")})
      if (const auto at = find(call.weights, std::string(name) + suffix, place++)) *numbers = call.weights[*at].reals();
  const auto amax_of = [](const Float8State::Of& of) {
    const float amax = of.scale.size() == 1 ? of.scale[0] * kLargestE4M3 : 0;
    return amax > 0 && amax < kInfinity ? amax : 0;
  };
  if (const float amax = amax_of(state.x); amax > 0 && !call.inputs.empty()) {
    std::vector<float>& amaxes = call.value(call.inputs[0]).amaxes;
    if (amaxes.empty()) amaxes = {amax};
    else amaxes[0] = std::max(amaxes[0], amax);
  }
  const float kernel_amax = amax_of(state.w);
  call.importer->keep_float8(call, kernel_amax, std::move(state));
}

}  // namespace

// Packed codes are a matrix, as the kernels of attention are not; g_idx says how many rows share a scale.
std::string stored_mode(const Weights& weights) {
  if (weights.count() == 0) return "";
  if (weights[0].type != ElementType::kInt8) return weights.count() >= 7 ? "float8" : "";
  if (weights[0].dims.size() != 2) return "int8";
  const size_t last = weights.count() - 1;
  if (weights[last].dims.size() != 1 || weights[last].type != ElementType::kFloat32) return "int4/-1";
  const std::vector<float> group = weights[last].reals();
  const bool grouped = weights.count() >= 4 && int64_t(group.size()) == weights[0].dims[0];
  return grouped ? "int4/" + std::to_string(std::count(group.begin(), group.end(), 0.0f)) : "int4/-1";
}

void decode_kernel(Call& call, const std::string& mode) {
  if (mode == "float8") return read_float8(call);
  const bool embedding = call.class_name.ends_with("Embedding"), int4 = mode.starts_with("int4");
  if (mode != "int8" && !int4) call.unsupported("codes of " + mode + ": give the network before it was quantized");
  if (int4 && call.class_name == "EinsumDense" && !sums_first(call))
    call.unsupported("codes of int4 of a kernel whose equation keeps an axis before one that it sums");
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
  auto made = std::make_shared<CodedKernel>();
  made->numbers.type = ElementType::kFloat32;
  std::vector<int64_t>& dims = made->numbers.dims =
      int4 ? kernel_dims(call, stored, call.weights[*at.scale]) : stored.dims;
  int64_t columns = 1;
  for (size_t i = 1; i < dims.size(); ++i) columns *= dims[i];
  if (columns < 1) call.bad("a kernel of shape " + dims_text(dims));
  if (int4 && (stored.dims.back() != (columns + 1) / 2 || stored.dims.size() != 2))
    call.bad("packed codes of shape " + dims_text(stored.dims) + " for a kernel of shape " + dims_text(dims));
  made->codes = int4 ? unpacked(stored, columns) : stored.reals();
  made->quantization = int4 ? Quantization::kInt4Weights : Quantization::kInt8Dynamic;
  std::vector<float> w = made->codes;
  const std::vector<float> scale = call.weights[*at.scale].reals();
  if (int4 && at.zero && at.groups) {
    const std::vector<float> zero = call.weights[*at.zero].reals(), group = call.weights[*at.groups].reals();
    if (zero.size() != scale.size()) call.bad("scales that do not fit its kernel");
    const auto grouped = [&](const std::vector<float>& of) {
      return embedding ? in_groups_of_rows(call, of, group, w.size())
                       : in_groups(call, of, group, w.size(), size_t(columns));
    };
    made->scale = grouped(scale);
    made->zero = grouped(zero);
    made->block = block_of(mode);
    for (size_t i = 0; i < w.size(); ++i) w[i] = (w[i] - made->zero[i]) * made->scale[i];
  } else {
    if (!int4) made->scale = by_equation(call, scale, dims);
    if (made->scale.empty()) made->scale = scales_of(call, scale, w.size(), embedding);
    for (size_t i = 0; i < w.size(); ++i) w[i] /= made->scale[i];
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(w.data());
  made->numbers.bytes.assign(bytes, bytes + w.size() * sizeof(float));
  call.weights = call.weights.with_kernel(std::move(made), *at.kernel, at.bias);
}

// Of a matrix [out, in] with a scale per row, or per block of in; of anything else its numbers are enough.
void attach_codes(const Call& call, ValueId weights, const CodedKernel& kernel, const Call::Arrange& make) {
  Value& w = call.value(weights);
  if (w.dims.size() != 2 || kernel.codes.empty()) return;
  const auto arranged = [&](const std::vector<float>& of) { return make ? make(of) : of; };
  const std::vector<float> codes = arranged(kernel.codes), scale = arranged(kernel.scale),
                           zero = kernel.zero.empty() ? std::vector<float>() : arranged(kernel.zero);
  auto made = std::make_shared<SourceCodes>();
  made->quantization = kernel.quantization;
  made->block = kernel.block;
  const auto terms = size_t(w.dims[1]), block = kernel.block == 0 ? terms : std::min(terms, size_t(kernel.block));
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t first = i - i % terms % block;
    if (scale[i] != scale[first]) return;
    if (!zero.empty() && (zero[i] != zero[first] || !(std::abs(zero[i]) <= 127))) return;
    made->codes.push_back(int8_t(codes[i]));
    if (first != i) continue;
    made->scale.push_back(scale[i]);
    if (!zero.empty()) made->zero.push_back(int8_t(zero[i]));
  }
  made->of = w.data;
  w.source_codes = std::move(made);
}

}  // namespace nacre::tools::keras
