// Converts weights of uint8, which TensorFlow 1 wrote. Under float32 activations LiteRT reads their bytes as int8, in
// hybrid layers. Under uint8 activations they have one scale s and a zero point z, but the engine's weights have int8
// codes alone:
//
//   sum_i x_i s d_i,   d = w - z in [-255, 255]
//
// If all d are in [-127, 127], they are the codes. Else d = a + b (+ c), each in [-127, 127]; b is mostly 0 but in few
// channels. x is repeated for b, which gives the same sums:
//
//   conv2d, dense      sum_i x_i a_i + sum_j x_j b_j        channels of b, first to last, follow those of a
//   depthwise_conv2d   rows of x and of the filter twice    row 2i of the filter is a, row 2i + 1 is b (or columns)
#include <algorithm>

#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

constexpr int64_t kMostCode = 127;

bool is_wide(const Value& w) { return w.quantizer && w.stored == ElementType::kInt16; }

template <class Code>
Value with_codes(const Value& like, const std::string& suffix, const std::vector<int64_t>& numbers, ElementType type) {
  const std::vector<Code> codes(numbers.begin(), numbers.end());
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes.data());
  Value v = like;
  v.name += suffix;
  v.stored = type;
  v.quantizer = Quantizer{type, like.quantizer->scale, {0}, 0};
  v.data = std::make_shared<const std::vector<uint8_t>>(bytes, bytes + codes.size() * sizeof(Code));
  return v;
}

// Subtracts from every number the part that fits into [-127, 127], and returns these parts as codes.
std::vector<int64_t> take_codes(std::vector<int64_t>& rest) {
  std::vector<int64_t> codes;
  for (int64_t& d : rest) {
    codes.push_back(std::clamp(d, -kMostCode, kMostCode));
    d -= codes.back();
  }
  return codes;
}

struct Channels {  // channels first <= c < end of the last axis
  int64_t first, end;
};

Channels channels_of(const std::vector<int64_t>& numbers, int64_t count) {
  Channels of = {count, 0};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t c = int64_t(i) % count;
    if (numbers[i] != 0) of = {std::min(of.first, c), std::max(of.end, c + 1)};
  }
  return of;
}

}  // namespace

ValueId uint8_weights(Importer& importer, const Operation& op, ValueId id, bool hybrid) {
  const Value w = importer.value(id);
  if (w.quantizer->scale.size() != 1) importer.unsupported(op, "uint8 weights with several scales");
  Value signed_w = w;
  if (hybrid) {
    signed_w.name += "/int8";
    signed_w.stored = ElementType::kInt8;
    signed_w.quantizer = Quantizer{ElementType::kInt8, w.quantizer->scale, {0}, 0};
    return importer.graph().add(std::move(signed_w));
  }
  std::vector<int64_t> numbers = integers(w);
  for (int64_t& number : numbers) number -= w.quantizer->zero[0];
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  const bool fits = *least >= -kMostCode && *most <= kMostCode;
  return importer.graph().add(fits ? with_codes<int8_t>(w, "/int8", numbers, ElementType::kInt8)
                                   : with_codes<int16_t>(w, "/int16", numbers, ElementType::kInt16));
}

void split_channels(Importer& importer, Operation& op, ValueId& x, ValueId& w_id) {
  const Value w = importer.value(w_id);
  if (!is_wide(w)) return;
  const int64_t count = w.dims.back(), rows = w.elements() / count;
  if (importer.value(x).dims.back() != count)
    importer.unsupported(op, "uint8 weights far from their zero point, of a convolution with groups");
  std::vector<int64_t> rest = integers(w);
  std::vector<std::vector<int64_t>> codes(static_cast<size_t>(rows));
  std::vector<ValueId> parts;
  const int last = int(importer.value(x).dims.size()) - 1;
  Steps steps(importer, op);
  int64_t channels = 0;
  for (Channels of = {0, count}; of.first < of.end; of = channels_of(rest, count)) {
    parts.push_back(parts.empty() ? x : steps.slice(x, last, of.first, of.end - of.first));
    const std::vector<int64_t> part = take_codes(rest);
    for (int64_t r = 0; r < rows; ++r)
      codes[size_t(r)].insert(codes[size_t(r)].end(), part.begin() + r * count + of.first,
                              part.begin() + r * count + of.end);
    channels += of.end - of.first;
  }
  std::vector<int64_t> all;
  for (const std::vector<int64_t>& row : codes) all.insert(all.end(), row.begin(), row.end());
  Value made = with_codes<int8_t>(w, "/parts", all, ElementType::kInt8);
  made.dims.back() = channels;
  w_id = importer.graph().add(std::move(made));
  x = steps.concat(parts, last);
}

void split_rows(Importer& importer, Operation& op, ValueId& w_id, Node& node) {
  const Value w = importer.value(w_id);
  if (!is_wide(w)) return;
  const bool down = get_integer(node, "dilation_h") <= 1;
  if (!down && get_integer(node, "dilation_w") > 1)
    importer.unsupported(op, "uint8 weights far from their zero point, dilated along both axes");
  // Size of the runs of the filter and of x that repeat: rows, or single pixels.
  const size_t run = size_t(w.dims[2] * (down ? w.dims[1] : 1));
  std::vector<int64_t> rest = integers(w);
  std::vector<std::vector<int64_t>> parts;
  while (std::ranges::any_of(rest, [](int64_t d) { return d != 0; })) parts.push_back(take_codes(rest));
  std::vector<int64_t> all;
  for (size_t at = 0; at < rest.size(); at += run)
    for (const std::vector<int64_t>& part : parts)
      all.insert(all.end(), part.begin() + long(at), part.begin() + long(at + run));
  const auto times = int64_t(parts.size());
  Value made = with_codes<int8_t>(w, "/parts", all, ElementType::kInt8);
  made.dims[down ? 0 : 1] *= times;
  w_id = importer.graph().add(std::move(made));

  Steps steps(importer, op);
  const ValueId x = node.inputs[0];
  std::vector<int64_t> dims = steps.dims(x);
  const ValueId runs = down ? steps.reshape(x, {dims[0], dims[1], 1, dims[2] * dims[3]})
                            : steps.reshape(x, {dims[0], dims[1] * dims[2], 1, dims[3]});
  dims[down ? 1 : 2] *= times;
  const ValueId twice = steps.reshape(steps.concat(std::vector<ValueId>(size_t(times), runs), 2), dims);
  node.inputs[0] = twice;
  node.inputs[1] = w_id;
  for (const char* word :
       {down ? "stride_h" : "stride_w", down ? "pad_top" : "pad_left", down ? "pad_bottom" : "pad_right"})
    set_integer(node, word, get_integer(node, word) * int(times));
}

}  // namespace nacre::tools::tflite
