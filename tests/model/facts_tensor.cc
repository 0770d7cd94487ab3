#include <bit>
#include <cstring>

#include "tests/model/facts.h"

namespace nacre::test {
namespace {

// Tensor ids of dense_int8().
enum : uint32_t { kW1, kB1, kS1, kW2, kB2, kS2, kX, kH, kY };

using OnRecord = void (*)(TensorRecord&);

void the_records(Facts& f) {
  const auto tensor = [&](int number, const char* text, uint32_t id, OnRecord edit, Code code) {
    f.draft(number, text, dense_int8, [=](Draft& d) { edit(d.tensors[id]); }, {code, Table::kTensor, id});
  };
  using R = TensorRecord;
  tensor(18, "element type 0", kH, [](R& r) { r.element = ElementType::kNone; }, Code::kElementType);
  tensor(18, "element type 200", kH, [](R& r) { r.element = ElementType(200); }, Code::kElementType);
  tensor(18, "region 9", kH, [](R& r) { r.region = Region(9); }, Code::kRegion);
  tensor(21, "rank 9", kH, [](R& r) { r.rank = 9; }, Code::kRank);
  tensor(21, "rank 255", kH, [](R& r) { r.rank = 255; }, Code::kRank);
  tensor(22, "dimension 0", kH, [](R& r) { r.dims[0] = 0; }, Code::kDim);
  tensor(22, "dimension -1", kH, [](R& r) { r.dims[1] = -1; }, Code::kDim);
  tensor(22, "dimension over 2^28", kH, [](R& r) { r.dims[1] = (1 << 28) + 1; }, Code::kDim);
  tensor(22, "dimension beyond the rank", kH, [](R& r) { r.dims[7] = 1; }, Code::kDim);
  tensor(23, "2^31 elements", kH, [](R& r) { r.dims[0] = 8, r.dims[1] = 1 << 28; }, Code::kOverflow);
  tensor(
      23, "2^32 + 4 elements: 4 in 32 bits", kH,
      [](R& r) { r.rank = 3, r.dims[0] = 1 << 16, r.dims[1] = 1 << 16, r.dims[2] = 4; }, Code::kOverflow);
  tensor(
      23, "2^224 elements", kH,
      [](R& r) {
        r.rank = kMaxRank;
        for (int32_t& dim : r.dims) dim = 1 << 28;
      },
      Code::kOverflow);
  tensor(
      24, "bytes as they would wrap in 32 bits", kB1,
      [](R& r) { r.rank = 2, r.dims[0] = 1 << 20, r.dims[1] = 1 << 10, r.bytes = 0; }, Code::kBytes);
  tensor(24, "bytes near 2^64", kH, [](R& r) { r.bytes = ~uint64_t{0}; }, Code::kBytes);
  tensor(26, "fewer bytes than the tensor needs", kW1, [](R& r) { --r.bytes; }, Code::kBytes);
  tensor(27, "more bytes than the tensor needs", kW1, [](R& r) { ++r.bytes; }, Code::kBytes);
  tensor(25, "segment that does not exist", kW1, [](R& r) { r.bank = 1; }, Code::kBank);
  tensor(25, "bank that does not exist", kH, [](R& r) { r.bank = 1; }, Code::kBank);
  tensor(26, "last weights end beyond the segment", kS2, [](R& r) { r.offset += 8; }, Code::kBounds);
  tensor(26, "weights offset near 2^64", kS2, [](R& r) { r.offset = ~uint64_t{7}; }, Code::kBounds);
  tensor(28, "int32 weights at an odd offset", kB1, [](R& r) { r.offset += 1; }, Code::kOffsetAlignment);
  tensor(28, "int32 weights at 2 of 4", kB1, [](R& r) { r.offset += 2; }, Code::kOffsetAlignment);
  tensor(29, "two weights share bytes", kB2, [](R& r) { r.offset -= 16; }, Code::kOverlap);
  tensor(29, "weights out of order", kW2, [](R& r) { r.offset = 0; }, Code::kOrder);
  tensor(19, "quantizer that does not exist", kH, [](R& r) { r.quantizer = 4; }, Code::kQuantizer);
  tensor(18, "quantizer of other codes", kB1, [](R& r) { r.quantizer = 3; }, Code::kCodes);
  tensor(0, "reserved bytes of a tensor", kH, [](R& r) { r.reserved[4] = 1; }, Code::kReserved);
  tensor(0, "unknown flag", kH, [](R& r) { r.flags |= 16; }, Code::kFlags);
  tensor(0, "weights marked as batched", kW1, [](R& r) { r.flags |= kBatched; }, Code::kFlags);
  tensor(0, "arena tensor marked as trainable", kH, [](R& r) { r.flags |= kTrainable; }, Code::kFlags);
  tensor(0, "weights marked as input", kW1, [](R& r) { r.flags |= kInput; }, Code::kFlags);
  tensor(0, "weights with a lifetime", kW1, [](R& r) { r.last_step = 1; }, Code::kLifetime);
  tensor(0, "initial value of what is no state", kH, [](R& r) { r.initial = kW1; }, Code::kInitial);
}

void the_aliases(Facts& f) {
  // In conv_add_int8, tensor 8 is the sum and tensor 11 its alias.
  const auto alias = [&](int number, const char* text, OnRecord edit, Code code) {
    f.draft(number, text, conv_add_int8, [=](Draft& d) { edit(d.tensors[11]); }, {code, Table::kTensor, 11});
  };
  using R = TensorRecord;
  alias(19, "alias of a tensor that does not exist", [](R& r) { r.alias_of = 12; }, Code::kAliasTarget);
  alias(19, "alias of itself", [](R& r) { r.alias_of = 11; }, Code::kAliasTarget);
  alias(29, "arena alias of weights: a writable name of flash", [](R& r) { r.alias_of = 4; }, Code::kAliasTarget);
  alias(29, "alias ends beyond its target", [](R& r) { r.offset = 1; }, Code::kAliasBounds);
  alias(29, "alias offset near 2^64", [](R& r) { r.offset = ~uint64_t{0}; }, Code::kAliasBounds);
  alias(38, "alias outlives its target", [](R& r) { r.last_step = 3; }, Code::kLifetime);
  alias(38, "alias before its target", [](R& r) { r.first_step = 0; }, Code::kLifetime);
  f.draft(29, "alias of an alias", elided_concat, [](Draft& d) { d.tensors[4].alias_of = 3, d.tensors[4].offset = 0; },
          {Code::kAliasTarget, Table::kTensor, 4});
  f.draft(29, "alias of another program's tensor", two_targets, [](Draft& d) { d.tensors[8].alias_of = 2; },
          {Code::kAliasTarget, Table::kTensor, 8});
  f.draft(28, "float alias at 2 of 4", elided_concat, [](Draft& d) { d.tensors[4].offset = 14; },
          {Code::kOffsetAlignment, Table::kTensor, 4});
}

void the_globals(Facts& f) {
  // Tensors of stateful: 0 initial, 1 w, 2 stream, 3 derived.
  const auto global = [&](int number, const char* text, uint32_t id, OnRecord edit, Code code) {
    f.draft(number, text, stateful, [=](Draft& d) { edit(d.tensors[id]); }, {code, Table::kTensor, id});
  };
  using R = TensorRecord;
  global(29, "state record beyond the state block", 1, [](R& r) { r.offset = 16; }, Code::kBounds);
  global(25, "state in a second bank", 1, [](R& r) { r.bank = 1; }, Code::kBank);
  global(0, "initial value that does not exist", 1, [](R& r) { r.initial = 99; }, Code::kInitial);
  global(0, "initial value that is not in weights", 1, [](R& r) { r.initial = 1; }, Code::kInitial);
  global(0, "initial value of another type", 1, [](R& r) { r.element = ElementType::kInt32; }, Code::kInitial);
  global(
      0, "batched tensor without axes", 2,
      [](R& r) { r.rank = 0, r.dims[0] = r.dims[1] = 0, r.bytes = 4, r.flags = kBatched; }, Code::kFlags);
  f.draft(29, "regions out of order", stateful,
          [](Draft& d) { d.tensors[2].region = Region::kStep, d.region_bytes[3] = 16; },
          {Code::kOrder, Table::kTensor, 3});
  f.draft(0, "arena tensor among the globals", stateful, [](Draft& d) { ++d.programs[0].first_tensor; },
          {Code::kRegion, Table::kTensor, 4});
  f.draft(0, "global tensor among a program's", stateful, [](Draft& d) { --d.programs[0].first_tensor; },
          {Code::kRegion, Table::kTensor, 3});
  f.draft(38, "state block near 2^64: sizes would wrap", stateful, [](Draft& d) { d.region_bytes[0] = ~uint64_t{15}; },
          {Code::kOverflow, Table::kRoot, uint32_t(Region::kState)});
  f.draft(38, "stream block over 2^48", stateful, [](Draft& d) { d.region_bytes[1] = (uint64_t{1} << 48) + 1; },
          {Code::kOverflow, Table::kRoot, uint32_t(Region::kStream)});
}

void the_quantizers(Facts& f) {
  const auto quantizer = [&](int number, const char* text, void (*edit)(QuantizerRecord&), Code code) {
    f.draft(number, text, dense_int8, [edit](Draft& d) { edit(d.quantizers[1]); }, {code, Table::kQuantizer, 1});
  };
  using Q = QuantizerRecord;
  quantizer(34, "scale 0", [](Q& q) { q.scale = 0; }, Code::kScale);
  quantizer(34, "scale negative", [](Q& q) { q.scale = -0.1f; }, Code::kScale);
  quantizer(34, "scale subnormal", [](Q& q) { q.scale = 1e-39f; }, Code::kScale);
  quantizer(34, "scale infinite", [](Q& q) { q.scale = std::bit_cast<float>(0x7F800000); }, Code::kScale);
  quantizer(34, "scale NaN", [](Q& q) { q.scale = std::bit_cast<float>(0x7FC00000); }, Code::kScale);
  quantizer(35, "zero point 128 of int8", [](Q& q) { q.zero = 128; }, Code::kZeroPoint);
  quantizer(35, "zero point -129 of int8", [](Q& q) { q.zero = -129; }, Code::kZeroPoint);
  quantizer(35, "zero point INT32_MIN", [](Q& q) { q.zero = INT32_MIN; }, Code::kZeroPoint);
  quantizer(35, "zero point -1 of uint8", [](Q& q) { q.codes = ElementType::kUint8, q.zero = -1; }, Code::kZeroPoint);
  quantizer(35, "zero point 16 of uint4", [](Q& q) { q.codes = ElementType::kUint4, q.zero = 16; }, Code::kZeroPoint);
  quantizer(
      35, "zero point of float8 codes", [](Q& q) { q.codes = ElementType::kFloat8E4M3, q.zero = 1; }, Code::kZeroPoint);
  quantizer(18, "codes of unknown type", [](Q& q) { q.codes = ElementType(99); }, Code::kElementType);
  quantizer(18, "unknown form of scale", [](Q& q) { q.form = ScaleForm(7); }, Code::kElementType);
  quantizer(19, "scales that do not exist", [](Q& q) { q.scales = 99; }, Code::kOperandId);
  quantizer(19, "zero points that do not exist", [](Q& q) { q.zeros = 99; }, Code::kOperandId);
  quantizer(34, "scales that are no float32", [](Q& q) { q.scales = kB1; }, Code::kScaleCount);
  quantizer(34, "zero points without scales", [](Q& q) { q.zeros = kB1; }, Code::kScaleCount);
  quantizer(0, "reserved byte of a quantizer", [](Q& q) { q.reserved = 1; }, Code::kReserved);

  const auto channel = [&](int number, const char* text, void (*edit)(Draft&), Refusal expected) {
    f.draft(number, text, per_channel, edit, expected);
  };
  channel(34, "fewer scales than channels", [](Draft& d) { d.tensors[0].dims[0] = 2, d.tensors[0].bytes = 8; },
          {Code::kScaleCount, Table::kQuantizer, 0});
  channel(34, "scales along an axis of another size", [](Draft& d) { d.quantizers[0].axis = 3; },
          {Code::kScaleCount, Table::kTensor, 2});
  channel(33, "axis of the scales beyond the rank", [](Draft& d) { d.quantizers[0].axis = 4; },
          {Code::kAxis, Table::kTensor, 2});
  channel(34, "fewer zero points than scales", [](Draft& d) { d.tensors[1].dims[0] = 2, d.tensors[1].bytes = 8; },
          {Code::kScaleCount, Table::kQuantizer, 0});
}

template <class T>
auto stored(uint64_t at, T value) {
  return [=](Draft& d) { std::memcpy(d.segments[0].data() + at, &value, sizeof value); };
}

// Returns a model with weights in the other types that have NaN. No step reads them.
Draft other_floats() {
  Draft d;
  d.weights<uint16_t>({2}, {0x3C00, 0x3C00});  // float16 1
  d.tensors[d.weights<uint16_t>({2}, {0x3F80, 0x3F80})].element = ElementType::kBfloat16;
  d.weights<double>({2}, {1, 1});
  const uint32_t x = d.arena(ElementType::kFloat32, {4}, 0, 0, 0, kNoIndex, kInput);
  const uint32_t y = d.arena(ElementType::kFloat32, {4}, 0, 0, 16, kNoIndex, kOutput);
  d.step(Op::kTanh, {}, {x}, {y});
  d.program(Entry::kInfer, "", {32});
  return d;
}

// False weight values. The segment's CRC is correct, and check_weights finds the value.
void the_weights(Facts& f) {
  const auto weights = [&](int number, const char* text, Draft (*base)(), Facts::OnDraft edit, Refusal expected) {
    expected.stage = Stage::kWeights;
    f.draft(number, text, base, std::move(edit), expected);
  };
  weights(41, "NaN in float32 weights", float_chain, stored(4 * 5, 0x7FC00001u), {Code::kNotFinite, Table::kTensor, 0});
  weights(41, "a signalling NaN in float32 weights", float_chain, stored(4 * 35, 0xFF800001u),
          {Code::kNotFinite, Table::kTensor, 0});
  weights(41, "NaN in a float32 bias", float_chain, stored(144, 0xFFFFFFFFu), {Code::kNotFinite, Table::kTensor, 1});
  weights(41, "NaN in float16 weights", other_floats, stored(2, uint16_t{0x7E00}),
          {Code::kNotFinite, Table::kTensor, 0});
  weights(41, "NaN in bfloat16 weights", other_floats, stored(16, uint16_t{0xFF81}),
          {Code::kNotFinite, Table::kTensor, 1});
  weights(41, "NaN in float64 weights", other_floats, stored(40, uint64_t{0x7FF0000000000001}),
          {Code::kNotFinite, Table::kTensor, 2});
  weights(34, "scale 0 among the channels", per_channel, stored(4, 0u), {Code::kScale, Table::kQuantizer, 0});
  weights(34, "negative scale among the channels", per_channel, stored(8, 0xBF800000u),
          {Code::kScale, Table::kQuantizer, 0});
  weights(34, "subnormal scale among the channels", per_channel, stored(8, 1u), {Code::kScale, Table::kQuantizer, 0});
  weights(35, "zero point 200 among the channels", per_channel, stored(16 + 4, 200),
          {Code::kZeroPoint, Table::kQuantizer, 0});
  // In s1 of dense_int8, a pair {multiplier, shift} is at byte 32 + 16.
  weights(36, "multiplier negative", dense_int8, stored(48, -1), {Code::kMultiplier, Table::kTensor, kS1});
  weights(36, "multiplier under 2^30", dense_int8, stored(48, (1 << 30) - 1), {Code::kMultiplier, Table::kTensor, kS1});
  weights(36, "shift 31", dense_int8, stored(52, 31), {Code::kMultiplier, Table::kTensor, kS1});
  weights(36, "shift -32", dense_int8, stored(52, -32), {Code::kMultiplier, Table::kTensor, kS1});
  weights(36, "shift INT32_MIN", dense_int8, stored(52, INT32_MIN), {Code::kMultiplier, Table::kTensor, kS1});
}

}  // namespace

// Tensors of packed: 0 the initial value, 1 w in state, 2 its panels, 3 int4, 4 x, 5 pixels in panels of channels.
void the_layouts(Facts& f) {
  enum : uint32_t { kFirst, kParameter, kPanels, kCodes, kImage, kPixels };
  const auto layout = [&](const std::string& text, uint32_t id, std::function<void(TensorRecord&)> edit, Code code) {
    f.draft(0, text, packed, [=](Draft& d) { edit(d.tensors[id]); }, {code, Table::kTensor, id});
  };
  for (const unsigned bits : {2u, 4u, 5u, 7u, 20u, 35u, 64u, 71u, 68u, 96u, 132u})
    for (const int more : {-1, 1, 4})
      layout((more < 0    ? "too few bytes of layout "
              : more == 1 ? "a byte too much of layout "
                          : "an element too much of layout ") +
                 std::to_string(bits),
             kPanels,
             [=](TensorRecord& r) {
               r.layout = Layout{uint8_t(bits)};
               r.bytes = 4 * stored_elements(r.layout, {r.rank, r.dims, 0}) + uint64_t(int64_t(more));
             },
             Code::kBytes);
  const auto in = [](Layout l) { return [l](TensorRecord& r) { r.layout = l; }; };
  layout("row-major bytes in panels", kPanels, [](TensorRecord& r) { r.bytes = 60; }, Code::kBytes);
  layout(
      "panels of pixels without the bytes of whole panels", kPixels, [](TensorRecord& r) { r.bytes = 24; },
      Code::kBytes);
  layout("the layout that stands for all", kPanels, in(Layout::kAny), Code::kLayout);
  layout("state in panels", kParameter, in(layout_of(2)), Code::kLayout);
  layout("int4 in panels", kCodes, in(layout_of(2)), Code::kLayout);
  layout("an input in panels of channels", kImage, in(layout_of(2, 0, kOfChannels)), Code::kLayout);
  layout("an activation in panels of rows", kPixels, in(layout_of(2)), Code::kLayout);
  layout(
      "one axis in panels", kPanels, [](TensorRecord& r) { r.rank = 1, r.dims[0] = 15, r.dims[1] = 0; }, Code::kLayout);
  layout("an alias in panels", kPixels, [](TensorRecord& r) { r.alias_of = kImage, r.offset = 0; }, Code::kLayout);
  layout(
      "panels whose elements overflow", kPanels,
      [](TensorRecord& r) { r.dims[0] = 1, r.dims[1] = 1 << 28, r.layout = layout_of(6); }, Code::kLayout);
  f.draft(0, "an alias of panels", packed,
          [](Draft& d) {
            d.tensors[kCodes] = d.tensors[kPanels];
            d.tensors[kCodes].layout = Layout::kRowMajor;
            d.tensors[kCodes].bytes = 60;
            d.tensors[kCodes].offset = 0;
            d.tensors[kCodes].alias_of = kPanels;
          },
          {Code::kAliasTarget, Table::kTensor, kCodes});
  f.draft(0, "initial values in another order", packed, [](Draft& d) { d.tensors[kFirst].layout = kTransposed; },
          {Code::kInitial, Table::kTensor, kParameter});
  f.draft(0, "a kernel for row-major weights reads panels", packed, [](Draft& d) { d.operands[0] = kPanels; },
          {Code::kNoKernel, Table::kStep, 0, Stage::kMeasure});
}

void tensor_facts(Facts& facts) {
  the_layouts(facts);
  the_records(facts);
  the_aliases(facts);
  the_globals(facts);
  the_quantizers(facts);
  the_weights(facts);
}

}  // namespace nacre::test
