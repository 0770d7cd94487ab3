// Decodes quantized layers: makes the real kernel of the variables that code it.
//
//   int8    codes q [as the kernel], kernel_scale = 127 / max |w| per channel           w = q / scale
//   int4    two codes q a byte, low bits first, along the last axis; kernel_scale, kernel_zero [groups, channels],
//           g_idx [rows]: the group of a row                                            w = (q - zero) scale
//           an embedding has scale and zero [rows, groups], g_idx [width]
//           per channel: kernel_scale alone                                             w = q / scale
//   float8  the kernel itself, with scales and amax histories: inference divides by the scales, and training continues
//
// The import keeps the layer's policy, and the codes with the kernel (SourceCodes). If the policy is kept, the codes
// are stored unchanged. A reverse matrix of ReversibleEmbedding has its int4 codes along the first axis.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "engine/numeric/float8_scale.h"
#include "engine/ops/binary.h"
#include "engine/ops/reduce_axes.h"
#include "engine/ops/unary.h"
#include "tools/base/product.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

constexpr float kLargestE4M3 = 448;

// Finds variable `name`, by its name in the file, or, if the file has only numbers (vars/0, ..), at index `place`.
std::optional<size_t> find(const Weights& weights, const std::string& name, size_t place) {
  for (size_t i = 0; i < weights.count(); ++i) {
    std::string path = weights.path(i);
    if (path.ends_with(":0")) path.resize(path.size() - 2);
    if (path.ends_with("/" + name)) return i;
  }
  const bool by_place = weights.count() > 0 && weights.path(0).ends_with("vars/0");
  return by_place && place < weights.count() ? std::optional<size_t>(place) : std::nullopt;
}

int half_of(uint8_t byte, bool second) {
  const int half = second ? byte >> 4 : byte & 15;
  return half >= 8 ? half - 16 : half;
}

// Unpacks codes that are stored in pairs: [rows, ceil(columns / 2)] or, along the first, [ceil(rows / 2), columns].
std::vector<float> codes_in_pairs(const Hdf5Dataset& packed, const std::vector<int64_t>& to, bool along_first) {
  const int64_t columns = along_first ? to[1] : packed.dims.back();
  const int64_t all = std::accumulate(to.begin(), to.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> codes;
  for (int64_t i = 0; i < all; ++i) {
    const int64_t width = along_first ? columns : all / packed.dims[0], r = i / width, c = i % width;
    const int64_t at = along_first ? r / 2 * columns + c : r * columns + c / 2;
    codes.push_back(float(half_of(packed.bytes[size_t(at)], (along_first ? r : c) % 2 == 1)));
  }
  return codes;
}

// Returns the scale of each of `count` codes [rows, columns]: one per column, or one per row of an embedding.
std::vector<float> scales_of(const Call& call, const std::vector<float>& scale, size_t count, bool by_row) {
  if (scale.empty() || count % scale.size() != 0) call.bad("scales that do not fit its kernel");
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = scale[by_row ? i / (count / scale.size()) : i % scale.size()];
  return all;
}

// Returns for each of `count` codes [rows, columns] its number in `of` [groups, columns]; group[i] is the group of row
// i.
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

// Returns for each of `count` codes [rows, columns] of an embedding its number in `of` [rows, groups]; group[j] is the
// group of column j.
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

// Returns the scale of each code of an EinsumDense. `scale` has one per index of the kernel's axes that y has, in the
// order of y. Returns {} if it does not fit the equation.
std::vector<float> by_equation(const Call& call, const std::vector<float>& scale, const std::vector<int64_t>& dims) {
  const std::string text = call.text("equation", "");
  const size_t comma = text.find(','), arrow = text.find("->");
  std::string w = comma < arrow && arrow != text.npos ? text.substr(comma + 1, arrow - comma - 1) : "";
  std::erase(w, ' ');
  if (w.size() != dims.size()) return {};
  std::vector<int64_t> stride(dims.size(), 0);
  int64_t all = 1;
  const int64_t count = product_of(dims);
  for (size_t at = text.size(); at-- > arrow;)
    if (const size_t axis = w.find(text[at]); axis != w.npos) stride[axis] = all, all *= dims[axis];
  if (all != int64_t(scale.size())) return {};
  std::vector<float> made;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0;
    for (size_t axis = dims.size(); axis-- > 0; rest /= dims[axis]) at += rest % dims[axis] * stride[axis];
    made.push_back(scale[size_t(at)]);
  }
  return made;
}

// Returns the sizes [rows, columns] of a kernel that the file has packed. If the layer does not say columns, scales do.
std::vector<int64_t> kernel_dims(const Call& call, const Hdf5Dataset& stored, const Hdf5Dataset& scale) {
  if (call.class_name.ends_with("Embedding")) return {stored.dims[0], call.integer("output_dim", 1)};
  if (call.class_name == "Dense") return {stored.dims[0], call.integer("units", 1)};
  return {stored.dims[0], scale.dims.empty() ? 1 : scale.dims.back()};
}

// Returns 128 for "int4/128"; 0 if there is a scale per channel.
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

// Reads the float8 scales and amax histories of input, kernel and gradient. They follow kernel and bias in this order.
void read_float8(Call& call) {
  const bool biased = call.find("bias_axes") != nullptr || (call.class_name == "Dense" && call.flag("use_bias", true));
  size_t place = biased ? 2 : 1;
  Float8State state;
  for (const auto& [to, name] :
       {std::pair(&state.x, "inputs"), std::pair(&state.w, "kernel"), std::pair(&state.y, "outputs_grad")})
    for (const auto& [numbers, suffix] : {std::pair(&to->scale, "_scale"), std::pair(&to->history, "_amax_history")})
      if (const auto at = find(call.weights, std::string(name) + suffix, place++)) *numbers = call.weights[*at].reals();
  const float kernel_amax = state.w.amax();
  call.importer->keep_float8(call, kernel_amax, std::move(state));
}

// Indices of a layer's variables; nullopt for one that it lacks.
struct Found {
  std::optional<size_t> kernel, bias, scale, zero, groups;
};

// Finds the variables of a layer with codes. Keras lists kernel, bias, kernel_scale, kernel_zero and g_idx; an
// embedding has no bias. A ReversibleEmbedding lists kernel, scale and zero of its reverse matrix after the table's
// variables, and the table's g_idx serves both. A variable that the layer lacks takes no place in the list.
Found find_codes(const Call& call, bool biased, bool reverse) {
  const std::string kernel = reverse                                  ? "reverse_embeddings"
                             : call.class_name.ends_with("Embedding") ? "embeddings"
                                                                      : "kernel";
  size_t next = 0;
  const auto take = [&](const std::string& name) { return find(call.weights, name, next++); };
  const auto is_matrix = [&](const std::optional<size_t>& at) { return at && call.weights[*at].dims.size() == 2; };
  Found table;
  if (reverse) {
    next = 1;
    const bool grouped = is_matrix(take("embeddings_scale"));
    if (grouped) take("embeddings_zero"), table.groups = take("g_idx");
  }
  Found at;
  at.kernel = take(kernel);
  if (biased) at.bias = take("bias");
  at.scale = take(kernel + "_scale");
  if (!is_matrix(at.scale)) return at;
  at.zero = take(kernel + "_zero");
  at.groups = reverse ? table.groups : take("g_idx");
  return at;
}

}  // namespace

// Packed int4 codes are a matrix, int8 kernels of attention are not. A block of int4 has the rows with g_idx 0.
std::string stored_mode(const Weights& weights) {
  if (weights.count() == 0) return "";
  const Hdf5Dataset& kernel = weights[find(weights, "kernel", 0).value_or(0)];
  if (kernel.type != ElementType::kInt8) return weights.count() >= 7 ? "float8" : "";
  if (kernel.dims.size() != 2) return "int8";
  const Hdf5Dataset& last = weights[find(weights, "g_idx", weights.count() - 1).value_or(0)];
  if (last.dims.size() != 1 || last.type != ElementType::kFloat32) return "int4/-1";
  const std::vector<float> group = last.reals();
  const bool grouped = weights.count() >= 4 && int64_t(group.size()) == kernel.dims[0];
  return grouped ? "int4/" + std::to_string(std::count(group.begin(), group.end(), 0.0f)) : "int4/-1";
}

namespace {

// Decodes made.codes into made.numbers. The file has a scale per column, row or group; made.scale has one per code.
void decode(const Call& call, const Found& at, bool by_row, CodedKernel& made) {
  const std::vector<float> scale = call.weights[*at.scale].reals();
  std::vector<float> w = made.codes;
  if (at.zero && at.groups) {
    const std::vector<float> zero = call.weights[*at.zero].reals(), group = call.weights[*at.groups].reals();
    if (zero.size() != scale.size()) call.bad("scales that do not fit its kernel");
    const size_t columns = w.size() / std::max<size_t>(group.size(), 1);
    const auto grouped = [&](const std::vector<float>& of) {
      return by_row ? in_groups_of_rows(call, of, group, w.size()) : in_groups(call, of, group, w.size(), columns);
    };
    made.scale = grouped(scale);
    made.zero = grouped(zero);
    for (size_t i = 0; i < w.size(); ++i) w[i] = (w[i] - made.zero[i]) * made.scale[i];
  } else {
    if (made.quantization != Quantization::kInt4Weights) made.scale = by_equation(call, scale, made.numbers.dims);
    if (made.scale.empty()) made.scale = scales_of(call, scale, w.size(), by_row);
    for (size_t i = 0; i < w.size(); ++i) w[i] /= made.scale[i];
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(w.data());
  made.numbers.bytes.assign(bytes, bytes + w.size() * sizeof(float));
}

// Unpacks int4 codes, two per byte, into made.codes. Keras packs a kernel of any rank as a matrix.
void unpack_kernel(const Call& call, const Hdf5Dataset& stored, const Found& at, bool reverse, CodedKernel& made) {
  std::vector<int64_t>& dims = made.numbers.dims;
  if (stored.dims.size() != 2) call.bad("packed codes of shape " + dims_text(stored.dims));
  dims = reverse ? std::vector<int64_t>{call.integer("output_dim", 1), stored.dims[1]}
                 : kernel_dims(call, stored, call.weights[*at.scale]);
  const size_t along = reverse ? 0 : 1;
  if (dims[0] < 1 || dims[1] < 1) call.bad("a kernel of shape " + dims_text(dims));
  if (stored.dims[along] != (dims[along] + 1) / 2)
    call.bad("packed codes of shape " + dims_text(stored.dims) + " for a kernel of shape " + dims_text(dims));
  made.codes = codes_in_pairs(stored, dims, reverse);
}

}  // namespace

void decode_kernel(Call& call, const std::string& mode) {
  if (mode == "float8") return read_float8(call);
  const bool embedding = call.class_name.ends_with("Embedding"), int4 = mode.starts_with("int4");
  if (mode != "int8" && !int4) call.unsupported("codes of " + mode + ": give the network before it was quantized");
  const bool reversed = call.class_name == "ReversibleEmbedding" && call.called_with("reverse");
  const bool reverse = reversed && !call.flag("tie_weights", true);
  const bool biased = call.find("bias_axes") != nullptr || (call.class_name == "Dense" && call.flag("use_bias", true));
  const Found at = find_codes(call, biased, reverse);
  if (!at.kernel || !at.scale) call.bad("has no codes or no scale");
  const Hdf5Dataset& stored = call.weights[*at.kernel];
  if (stored.type != ElementType::kInt8 || stored.dims.empty()) return;  // the kernel is not coded
  auto made = std::make_shared<CodedKernel>();
  made->numbers.type = ElementType::kFloat32;
  made->numbers.dims = stored.dims;
  made->quantization = int4 ? Quantization::kInt4Weights : Quantization::kInt8Dynamic;
  made->block = int4 && at.zero ? block_of(mode) : 0;
  // If the layer does not code its input's rows as the policy int8 does, only the weights stay int8. This holds for all
  // calls of the layer, which share one policy.
  if ((!embedding || call.class_name == "ReversibleEmbedding") && !int4 && row_codes(call) != RowCodes()) {
    call.config["dtype"] = "int8/weights_from_" + source_name(call.config);
    made->quantization = Quantization::kInt8Weights;
  }
  if (int4) unpack_kernel(call, stored, at, reverse, *made);
  else made->codes = stored.reals();
  decode(call, at, embedding && !reverse, *made);
  call.weights = call.weights.with_kernel(std::move(made), *at.kernel, at.bias);
}

ValueId coded_rows(const Call& call, ValueId x) {
  const std::string mode = quantization_mode(call.config);
  if (!mode.starts_with("int4") && mode != "int8/weights") return x;
  const std::optional<RowCodes> rows = row_codes(call);
  if (!rows) return x;
  const ValueId most = call.reduce(Reduce::kMax, call.unary(Unary::kAbs, x), {call.rank(x) - 1}, true);
  const ValueId scale = call.binary(Binary::kDiv, call.number(rows->high), call.shifted(most, rows->epsilon));
  const ValueId codes = call.unary(Unary::kRound, call.emit(Op::kMul, {x, scale}));
  return call.binary(Binary::kDiv, call.clamp(codes, rows->low, rows->high), scale);
}

namespace {

// Drops codes that no policy of the engine has: the layer then computes with the decoded reals.
void leave_codes(const Call& call) {
  const std::string policy = source_name(call.config);
  call.importer->graph().layers[size_t(call.importer->layer_of(call))].source_policy =
      policy == "float32" ? "" : Json(policy).dump();
  call.note("has a scale for other than its outputs: its codes become reals");
}

}  // namespace

// Attaches codes to a matrix [out, in] with a scale per row, or per block of in. Other weights become reals.
void attach_codes(const Call& call, ValueId weights, const CodedKernel& kernel, const Call::Arrange& make) {
  Value& w = call.value(weights);
  if (w.dims.size() != 2 || kernel.codes.empty()) return;
  const auto arranged = [&](const std::vector<float>& of) { return make ? make(of) : of; };
  const std::vector<float> codes = arranged(kernel.codes), scale = arranged(kernel.scale),
                           zero = kernel.zero.empty() ? std::vector<float>() : arranged(kernel.zero);
  const bool step = kernel.quantization == Quantization::kInt8Weights;  // its codes are multiplied by a scale
  auto made = std::make_shared<SourceCodes>();
  made->quantization = kernel.quantization;
  made->block = kernel.block;
  const auto terms = size_t(w.dims[1]), block = kernel.block == 0 ? terms : std::min(terms, size_t(kernel.block));
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t first = i - i % terms % block;
    const bool other_zero = !zero.empty() && (zero[i] != zero[first] || !(std::abs(zero[i]) <= 127));
    if (scale[i] != scale[first] || other_zero) return leave_codes(call);
    made->codes.push_back(int8_t(codes[i]));
    if (first != i) continue;
    made->scale.push_back(step ? 1 / scale[i] : scale[i]);
    if (!zero.empty()) made->zero.push_back(int8_t(zero[i]));
  }
  made->of = w.data;
  w.source_codes = std::move(made);
}

float Float8State::Of::amax() const {
  if (scale.size() != 1 || !(scale[0] > 0) || !(scale[0] * kLargestE4M3 < kInfinity)) return 0;
  float below = scale[0] * kLargestE4M3, above = below;
  for (int i = 0; i < 4; ++i) {  // repeated, because Keras's rule divides twice and rounds
    for (const float amax : {below, above})
      if (keras_step(amax, 1, kLargestE4M3, 0, true).scale == scale[0]) return amax;
    below = std::nextafter(below, 0.0f);
    above = std::nextafter(above, kInfinity);
  }
  return scale[0] * kLargestE4M3;
}

}  // namespace nacre::tools::keras
