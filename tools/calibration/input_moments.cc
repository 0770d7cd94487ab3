#include "tools/calibration/input_moments.h"

#include <algorithm>
#include <cmath>

#include "tools/base/budget.h"
#include "tools/base/float64_sums.h"
#include "tools/base/option_id.h"
#include "tools/graph/matmul_operands.h"
#include "tools/graph/operands.h"

namespace nacre::tools {
namespace {

// Rows are added 32 at a time, so that each row of the Hessian is read and written once for all of them.
constexpr size_t kRowsAtOnce = 32;

// Reads row `row` of one image: its terms, by kernel row i, kernel column j and channel c, for the channels of `group`.
void read_row(const RowShape& s, const float* image, int64_t row, int64_t group, double* terms) {
  const int64_t per_group = s.channels / s.groups, h = row / s.out_w, w = row % s.out_w;
  for (int64_t i = 0; i < s.kernel_h; ++i)
    for (int64_t j = 0; j < s.kernel_w; ++j, terms += per_group) {
      const int64_t y = h * s.stride_h - s.top + i * s.dilation_h, x = w * s.stride_w - s.left + j * s.dilation_w;
      const bool inside = y >= 0 && y < s.in_h && x >= 0 && x < s.in_w;
      for (int64_t c = 0; c < per_group; ++c)
        terms[c] = inside ? double(image[(y * s.in_w + x) * s.channels + group * per_group + c]) : 0;
    }
}

// Adds the products of the terms x of all rows: sum_ab += sum_rows x_a x_b for b <= a.
void add_products(const std::vector<double>& rows, size_t terms, std::vector<double>& sum) {
  for (size_t a = 0; a < terms; ++a)
    for (size_t row = 0; row < rows.size(); row += terms) {
      const double v = rows[row + a];
      if (v != 0) add_scaled(v, rows.data() + row, sum.data() + a * terms, int64_t(a) + 1);
    }
}

}  // namespace

RowShape row_shape(const Graph& graph, const Node& matmul) {
  const std::vector<int64_t>&x = graph.values[size_t(matmul.inputs[kX])].dims,
        &w = graph.values[size_t(matmul.inputs[kW])].dims, &y = graph.values[size_t(matmul.outputs[0])].dims;
  if (matmul.op == Op::kDense) return {.channels = x.back()};
  const bool depthwise = matmul.op == Op::kDepthwiseConv2d;
  return {.channels = x[3],
          .groups = depthwise ? x[3] : get_integer(matmul, "groups"),
          .in_h = x[1],
          .in_w = x[2],
          .out_h = y[1],
          .out_w = y[2],
          .kernel_h = w[depthwise ? 0 : 1],
          .kernel_w = w[depthwise ? 1 : 2],
          .stride_h = get_integer(matmul, "stride_h"),
          .stride_w = get_integer(matmul, "stride_w"),
          .dilation_h = get_integer(matmul, "dilation_h"),
          .dilation_w = get_integer(matmul, "dilation_w"),
          .top = get_integer(matmul, "pad_top"),
          .left = get_integer(matmul, "pad_left")};
}

MomentCollector::MomentCollector(const Graph& graph, const std::function<bool(const Node&)>& fitted) {
  if (!fitted) return;
  Budget budget = graph.budget;
  for (const Node& node : graph.nodes) {
    if (!is_matmul(node.op) || !fitted(node)) continue;
    const RowShape shape = row_shape(graph, node);
    const std::string& x = graph.values[size_t(node.inputs[kX])].name;
    const std::string& y = graph.values[size_t(node.outputs[0])].name;
    const auto [first, last] = inputs_.equal_range(x);
    const auto same = std::find_if(first, last, [&](const auto& entry) { return entry.second.shape == shape; });
    if (same != last) {
      same->second.outputs.push_back(y);
      continue;
    }
    const auto groups = uint64_t(shape.groups), terms = uint64_t(shape.terms());
    budget.take(groups * terms * terms * sizeof(double), place_of(graph, node), "the products of its inputs",
                "leave its weights at their nearest codes: " + option("set", "LAYER") + "=int4/32_from_float32");
    Input input = {.shape = shape, .outputs = {y}, .sums = {}, .pixels = 0};
    input.sums.terms = shape.terms();
    input.sums.hessian.assign(groups, std::vector<double>(terms * terms));
    input.sums.mean_magnitude.assign(size_t(shape.channels), 0);
    inputs_.emplace(x, std::move(input));
  }
}

void MomentCollector::add(const std::string& value, std::span<const float> x) {
  const auto [first, last] = inputs_.equal_range(value);
  for (auto entry = first; entry != last; ++entry) add(entry->second, x);
}

void MomentCollector::add(Input& input, std::span<const float> x) {
  const RowShape& s = input.shape;
  const auto terms = size_t(s.terms()), channels = size_t(s.channels);
  const size_t image = size_t(s.in_h * s.in_w) * channels, rows = size_t(s.out_h * s.out_w) * (x.size() / image);
  for (size_t i = 0; i < x.size(); ++i) input.sums.mean_magnitude[i % channels] += std::abs(double(x[i]));
  input.pixels += int64_t(x.size() / channels);
  input.sums.rows += int64_t(rows);
  const auto rows_of_image = size_t(s.out_h * s.out_w);
  std::vector<double> taken;
  for (int64_t group = 0; group < s.groups; ++group)
    for (size_t first = 0; first < rows; first += kRowsAtOnce) {
      const size_t end = std::min(first + kRowsAtOnce, rows);
      taken.resize((end - first) * terms);
      for (size_t row = first; row < end; ++row)
        read_row(s, x.data() + row / rows_of_image * image, int64_t(row % rows_of_image), group,
                 taken.data() + (row - first) * terms);
      add_products(taken, terms, input.sums.hessian[size_t(group)]);
    }
}

std::map<std::string, std::shared_ptr<const InputMoments>> MomentCollector::result() const {
  std::map<std::string, std::shared_ptr<const InputMoments>> found;
  for (const auto& [name, input] : inputs_) {
    if (input.sums.rows == 0) continue;  // the matmul reads a constant, which no sample has
    InputMoments made = input.sums;
    const auto terms = size_t(made.terms);
    for (std::vector<double>& h : made.hessian)
      for (size_t a = 0; a < terms; ++a)
        for (size_t b = 0; b <= a; ++b) h[b * terms + a] = h[a * terms + b] = 2 * h[a * terms + b] / double(made.rows);
    for (double& v : made.mean_magnitude) v /= double(input.pixels);
    const auto shared = std::make_shared<const InputMoments>(std::move(made));
    for (const std::string& y : input.outputs) found.emplace(y, shared);
  }
  return found;
}

}  // namespace nacre::tools
