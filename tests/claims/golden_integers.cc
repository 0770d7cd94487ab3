// Integer policies: Keras's abs-max and grouped codes, packing, and TFLite's fixed point. TFLite's numbers go through
// the converter's multiplier pairs and the linked kernels.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "engine/kernels/reference.h"
#include "engine/numeric/absmax.h"
#include "engine/numeric/affine.h"
#include "engine/numeric/grouped_int4.h"
#include "engine/numeric/int4.h"
#include "engine/numeric/ternary.h"
#include "tests/claims/golden_topics.h"
#include "tests/one_step.h"
#include "tools/passes/policy/apply_policy.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {
namespace {

using Ints = std::vector<int>;

struct AbsMax {
  std::vector<int8_t> q;
  float scale;
};
AbsMax absmax_of(const std::vector<float>& x, CodeRange range) {
  AbsMax result = {std::vector<int8_t>(x.size()), 0};
  result.scale = absmax_quantize<float>(x, result.q, range);
  return result;
}

void absmax_rows(const json& table, CodeRange range, Rows& rows) {
  for (const json& row : table) {
    const AbsMax made = absmax_of(floats_of(row["x"]), range);
    const bool bits = !row.contains("scale_f32") || std::bit_cast<uint32_t>(made.scale) == bits_of(row["scale_f32"]);
    rows.row(bits && json(made.q) == row["q"] && same(made.scale, real_of(row["scale"])), row, {made.q, made.scale});
  }
}
void int8_absmax(const json& table, Rows& rows) { absmax_rows(table, kInt8Range, rows); }
void int4_absmax(const json& table, Rows& rows) { absmax_rows(table, kInt4Range, rows); }

// y = float(acc) / (kernel_scale x_scale) + b, with every operation in float32.
void keras_dense_int8(const json& table, Rows& rows) {
  using R = Rounded<float>;
  const size_t outputs = table["b"].size(), inputs = table["W"].size();
  std::vector<AbsMax> kernel;
  for (size_t k = 0; k < outputs; ++k) {
    std::vector<float> column;
    for (const json& line : table["W"]) column.push_back(float_of(line[k]));
    kernel.push_back(absmax_of(column, kInt8Range));
  }
  bool holds = true;
  for (size_t k = 0; k < outputs; ++k) {
    holds = holds && same(kernel[k].scale, real_of(table["kernel_scale"][k]));
    for (size_t i = 0; i < inputs; ++i) {
      const float back = absmax_value<float>(kernel[k].q[i], kernel[k].scale);
      holds = holds && kernel[k].q[i] == table["Wq"][i][k] &&
              same(back, real_of(table["dequant_kernel_for_backward"][i][k]));
    }
  }
  rows.row(holds, table);
  for (size_t r = 0; r < table["rows"].size(); ++r) {
    const json& row = table["rows"][r];
    const AbsMax x = absmax_of(floats_of(table["X"][r]), kInt8Range);
    bool same_row = json(x.q) == row["xq"] && same(x.scale, real_of(row["x_scale"]));
    for (size_t k = 0; k < outputs; ++k) {
      const int acc = std::inner_product(x.q.begin(), x.q.end(), kernel[k].q.begin(), 0);
      const R y = R(float(acc)) / (R(kernel[k].scale) * R(x.scale)) + R(float_of(table["b"][k]));
      same_row = same_row && acc == row["acc"][k] && std::bit_cast<uint32_t>(y.value) == bits_of(row["y_f32"][k]);
    }
    rows.row(same_row, row, {x.q, x.scale});
  }
}

void keras_int4_grouped(const json& table, Rows& rows) {
  for (const json& row : table) {
    const std::vector<float> x = floats_of(row["x"]);
    const size_t block = row["block"];
    Ints q, zeros;
    std::vector<float> scales, values;
    for (size_t first = 0; first < x.size(); first += block) {
      const auto part = std::span(x).subspan(first, std::min(block, x.size() - first));
      const Group group = group_of(part, block, GroupRange::kKeras);
      scales.push_back(group.scale);
      zeros.push_back(group.zero);
      for (const float v : part) {
        q.push_back(group_code(v, group));
        values.push_back(group_value(int8_t(q.back()), group));
      }
    }
    bool holds = json(q) == row["q"] && json(zeros) == row["zero"] && scales.size() == row["scale"].size();
    for (size_t i = 0; holds && i < scales.size(); ++i) holds = same(scales[i], real_of(row["scale"][i]));
    for (size_t i = 0; holds && i < values.size(); ++i) holds = same(values[i], real_of(row["dequant"][i]));
    rows.row(holds, row, {q, scales, zeros, values});
  }
}

void int4_pack(const json& table, Rows& rows) {
  for (const json& row : table) {
    const std::vector<int8_t> codes = row["v"];
    std::vector<Int4Pair> packed(int4_bytes(codes.size()));
    std::vector<int8_t> back(codes.size());
    pack_int4(codes, packed);
    unpack_int4(packed, back);
    Ints bytes;
    for (const Int4Pair pair : packed) bytes.push_back(int8_t(pair.bits));
    rows.row(json(bytes) == row["packed_int8"] && back == codes, row, bytes);
  }
}

void ternary(const json& row, Rows& rows) {
  std::vector<double> w;
  for (const json& v : row["W"]) w.push_back(v);
  const double scale = ternary_scale<double>(w), threshold = ternary_threshold(scale);
  std::vector<int8_t> trits, back;
  for (const double v : w) trits.push_back(trit_of(v, threshold));
  std::vector<uint8_t> packed(ternary_bytes(trits.size()));
  pack_ternary(trits, packed);
  for (size_t i = 0; i < trits.size(); ++i) back.push_back(trit_at(packed.data(), i));
  rows.row(scale == row["beta"] && threshold == row["threshold"] && json(trits) == row["trits"] &&
               json(packed) == row["packed"] && back == trits,
           row, {scale, threshold, trits, packed});
}

void quantize_multiplier(const json& table, Rows& rows) {
  for (const json& row : table) {
    const FixedPoint made = tools::quantize_multiplier(row["real"]);
    rows.row(made.multiplier == row["q"] && made.shift == row["shift"], row, {made.multiplier, made.shift});
  }
}

void multiplications(const json& table, Rows& rows) {
  for (const json& row : table) {
    const FixedPoint scale = {row["m"], row["shift"]};
    const int32_t x = row["x"];
    const double exact = double(x) * std::ldexp(double(scale.multiplier), scale.shift - 31);
    const json computed = {multiply<Rounding::kDouble>(x, scale), multiply<Rounding::kSingle>(x, scale),
                           multiply_wide(x, scale)};
    rows.row(computed == json{row["double_rounding"], row["single_rounding"], row["int64_variant"]} &&
                 std::fabs(exact - row["exact"].get<double>()) <= 1e-15 * std::fabs(exact),  // the table prints float64
             row, computed);
  }
}

void divergence(const json& table, Rows& rows) {
  for (const json& row : table) {
    const FixedPoint scale = tools::quantize_multiplier(row["multiplier"]);
    Ints negative, positive;
    for (int x = -20000; x <= 20000; ++x)
      if (multiply<Rounding::kDouble>(x, scale) != multiply<Rounding::kSingle>(x, scale))
        (x < 0 ? negative : positive).push_back(x);
    const size_t first = std::min<size_t>(4, positive.size()), last = std::min<size_t>(4, negative.size());
    rows.row(scale.multiplier == row["q"] && scale.shift == row["shift"] &&
                 int(positive.size() + negative.size()) == row["count"] && int(positive.size()) == row["positive"] &&
                 int(negative.size()) == row["negative"] &&
                 json(Ints(positive.begin(), positive.begin() + long(first))) == row["first_positive"] &&
                 json(Ints(negative.end() - long(last), negative.end())) == row["last_negative"],
             row, {scale.multiplier, scale.shift, positive.size(), negative.size()});
  }
}

// tensorflow/tensorflow #102943: the scales of that model, and their product and quotient in float32, as XNNPACK
// computes them.
void float_requant(const json& row, Rows& rows) {
  const float scale = float(0.05296124517917633) * float(0.024093778803944588) / float(0.11484327912330627);
  const int32_t acc = 585;
  rows.row(std::bit_cast<uint32_t>(scale) == bits_of(row["f32_scale"]) &&
               same(float(acc) * scale, real_of(row["f32_product"])) &&
               Requant<Rounding::kFloatEven>::apply(acc, &scale, 0) == row["rne"],
           row, {std::bit_cast<uint32_t>(scale), float(acc) * scale});
}

void act_range(const json& table, Rows& rows) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::map<std::string, std::pair<float, float>> bounds = {
      {"none", {-kInf, kInf}}, {"relu", {0.0f, kInf}}, {"relu6", {0.0f, 6.0f}}, {"relu_n1_1", {-1.0f, 1.0f}}};
  for (const json& row : table) {
    const auto [low, high] = bounds.at(row["act"]);
    const tools::Codes y = {row["scale"], row["zp"]};
    const json computed = {tools::bound_code(low, y), tools::bound_code(high, y)};
    rows.row(computed == row["range"], row, computed);
  }
}

void affine_quantize(const json& table, Rows& rows) {
  for (const json& row : table) {
    const Execution run = execute(reference::kQuantizeI8HalfAway, {0},
                                  {array_of<float>(ElementType::kFloat32, {1}, {float_of(row["x"])}),
                                   array_of<float>(ElementType::kFloat32, {1}, {float_of(row["scale"])}),
                                   array_of<int32_t>(ElementType::kInt32, {1}, {row["zp"]})});
    const int8_t code = affine_code(float_of(row["x"]), float_of(row["scale"]), row["zp"]);
    rows.row(run.code == Code::kOk && run.outputs[0].integer(0) == row["q"] && code == row["q"], row, code);
  }
}

// Computes pairs from the scales, and codes with the kernel of the integer dense.
void tflite_fc_int8(const json& table, Rows& rows) {
  for (const json& row : table) {
    const auto outputs = int32_t(row["bq"].size()), inputs = int32_t(row["xq"].size());
    Ints w;
    std::vector<int32_t> pairs;
    for (const json& line : row["Wq"])
      for (const int v : line) w.push_back(v);
    for (const json& scale : row["w_scale"]) {
      const FixedPoint made = tools::quantize_multiplier(double(float_of(row["x_scale"])) * double(float_of(scale)) /
                                                         double(float_of(row["y_scale"])));
      pairs.insert(pairs.end(), {made.multiplier, made.shift});
    }
    const tools::Codes y = {float_of(row["y_scale"]), row["y_zp"]};
    const bool relu = row["act"] == "relu";
    const std::vector<uint32_t> words = {relu, uint32_t(relu ? tools::bound_code(0, y) : 0), 127,
                                         uint32_t(int(row["x_zp"])), uint32_t(int(row["y_zp"]))};
    const std::vector<Array> operands = {array_of(ElementType::kInt8, {1, inputs}, row["xq"].get<Ints>()),
                                         array_of(ElementType::kInt8, {outputs, inputs}, w),
                                         array_of(ElementType::kInt32, {outputs}, row["bq"].get<Ints>()),
                                         array_of(ElementType::kInt32, {outputs, 2}, pairs)};
    const Execution twice = execute(reference::kDenseI8Double, words, operands),
                    once = execute(reference::kDenseI8Single, words, operands);
    bool holds = twice.code == Code::kOk && once.code == Code::kOk;
    for (size_t k = 0; holds && k < size_t(outputs); ++k) {
      int acc = row["bq"][k];
      for (size_t i = 0; i < size_t(inputs); ++i)
        acc += (int(row["xq"][i]) - int(row["x_zp"])) * w[k * size_t(inputs) + i];
      holds = acc == row["acc"][k] && pairs[2 * k] == row["multiplier_shift"][k][0] &&
              pairs[2 * k + 1] == row["multiplier_shift"][k][1] &&
              twice.outputs[0].integer(int64_t(k)) == row["y_double"][k] &&
              once.outputs[0].integer(int64_t(k)) == row["y_single"][k];
    }
    rows.row(holds, row, pairs);
  }
}

void tflite_fc_16x8(const json& table, Rows& rows) {
  for (size_t k = 0; k < table["rows"].size(); ++k) {
    const json& row = table["rows"][k];
    int64_t acc = table["bq"][k];
    for (size_t i = 0; i < table["xq"].size(); ++i)
      acc += table["xq"][i].get<int64_t>() * table["Wq"][k][i].get<int64_t>();
    const FixedPoint scale =
        tools::quantize_multiplier(double(float_of(table["x_scale"])) * double(float_of(table["w_scale"][k])) /
                                   double(float_of(table["y_scale"])));
    const int32_t y = std::clamp<int32_t>(multiply_wide(acc, scale), -32768, 32767);
    rows.row(acc == row["acc"] && scale.multiplier == row["m"] && scale.shift == row["shift"] && y == row["y"], row,
             {acc, scale.multiplier, scale.shift, y});
  }
}

constexpr Topic kTopics[] = {{"int8_absmax", int8_absmax},
                             {"int4_absmax", int4_absmax},
                             {"keras_dense_int8", keras_dense_int8},
                             {"keras_int4_grouped", keras_int4_grouped},
                             {"int4_pack", int4_pack},
                             {"ternary", ternary},
                             {"quantize_multiplier", quantize_multiplier},
                             {"mbqm", multiplications},
                             {"mbqm_divergence_in_[-20000,20000]", divergence},
                             {"float_requant_585", float_requant},
                             {"act_range", act_range},
                             {"affine_quantize_int8", affine_quantize},
                             {"tflite_fc_int8", tflite_fc_int8},
                             {"tflite_fc_16x8", tflite_fc_16x8}};

}  // namespace

std::span<const Topic> integer_topics() { return kTopics; }

}  // namespace nacre::test
