// Claim: with patches the arena of VWW and of MobileNetV2 (96 and 224 pixels) is at most half of what a run layer by
// layer needs at least, and outputs are equal to the bit.
//
// The bound is the most memory that one step's inputs and outputs take together. An arena also holds the network's
// input. The input of VWW alone takes half of the bound, so for VWW it lies in a memory bank of its own, like a
// camera's frame; only the other bank is compared.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <random>

#include "tests/claims/claims.h"
#include "tests/project_path.h"
#include "tests/sanitized.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/compile/compile.h"
#include "tools/model/golden.h"
#include "tools/passes/memory/plan_memory.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

// MobileNetV2 1.0 with random weights: Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks",
// arXiv:1801.04381, table 2.
class MobileNetV2 {
 public:
  Graph make(int size) {
    graph_.batch = 1;
    last_ = value({1, size, size, 3});
    graph_.inputs.push_back({"x", last_, ""});
    convolve(Op::kConv2d, 32, 3, 2, true);
    constexpr int kBlocks[][4] = {
        // expansion, channels, blocks, stride of the first
        {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    for (const auto& [expansion, channels, blocks, stride] : kBlocks)
      for (int i = 0; i < blocks; ++i) block(expansion, channels, i == 0 ? stride : 1);
    convolve(Op::kConv2d, 1280, 1, 1, true);
    add(Op::kMean, {last_}, [](Node& node) { set_integer(node, "axes", 6); });
    add(Op::kDense, {last_, constant({10, 1280}, 1280)}, [](Node&) {});
    graph_.outputs.push_back({"y", last_, ""});
    return std::move(graph_);
  }

 private:
  ValueId value(std::vector<int64_t> dims) {
    Value v;
    v.name = "v" + std::to_string(graph_.values.size());
    v.dims = std::move(dims);
    v.batched = true;
    return graph_.add(std::move(v));
  }
  // Returns uniform numbers of variance 2 / terms: He et al. 2015, arXiv:1502.01852.
  ValueId constant(const std::vector<int64_t>& dims, int64_t terms) {
    int64_t elements = 1;
    for (const int64_t dim : dims) elements *= dim;
    std::vector<float> items(static_cast<size_t>(elements));
    for (float& item : items) item = (float(random_() >> 8) * 0x1p-23f - 1) * std::sqrt(6.0f / float(terms));
    return graph_.constant("c" + std::to_string(graph_.values.size()), dims, items);
  }
  template <class Set>
  void add(Op op, std::vector<ValueId> inputs, Set set) {
    Node node = make_step(op, Node(), "l" + std::to_string(graph_.layers.size()), std::move(inputs), {value({})});
    node.layer = graph_.add_layer({.name = node.name, .source_op = "", .policy = {}});
    set(node);
    infer_shapes(graph_, node);
    last_ = node.outputs[0];
    graph_.nodes.push_back(std::move(node));
  }
  // Pads "same" as TensorFlow does: for an even size and stride 2 only at the end.
  void convolve(Op op, int out, int kernel, int stride, bool relu6) {
    const std::vector<int64_t> x = graph_.values[size_t(last_)].dims;
    const bool depthwise = op == Op::kDepthwiseConv2d;
    const ValueId w = depthwise ? constant({kernel, kernel, out}, kernel * kernel)
                                : constant({out, kernel, kernel, x[3]}, kernel * kernel * x[3]);
    add(op, {last_, w, constant({out}, 600)}, [&](Node& node) {
      set_integer(node, "stride_h", stride), set_integer(node, "stride_w", stride);
      const int before = kernel == 3 && stride == 1 ? 1 : 0, after = kernel == 3 ? 1 : 0;
      set_integer(node, "pad_top", before), set_integer(node, "pad_left", before);
      set_integer(node, "pad_bottom", after), set_integer(node, "pad_right", after);
    });
    if (relu6) add(Op::kClamp, {last_}, [](Node& node) { set_integer(node, "clamp", 1), set_real(node, "high", 6); });
  }
  void block(int expansion, int channels, int stride) {
    const ValueId x = last_;
    const int64_t in = graph_.values[size_t(x)].dims[3];
    if (expansion > 1) convolve(Op::kConv2d, int(in) * expansion, 1, 1, true);
    convolve(Op::kDepthwiseConv2d, int(in) * expansion, 3, stride, true);
    convolve(Op::kConv2d, channels, 1, 1, false);
    if (stride == 1 && in == channels) add(Op::kAdd, {x, last_}, [](Node&) {});
  }

  Graph graph_;
  std::mt19937 random_{1};
  ValueId last_ = kNone;
};

struct Count {
  int networks = 0;
  uint64_t bytes = 0;
  std::string text, failed;
};

void show(const std::string& name, const Graph& network, const std::string& policy, const std::string& banks,
          Count& count) {
  Calibration ranges;
  for (const Value& v : network.values)
    if (!v.constant()) ranges.ranges[v.name] = {.range = {-6, 6}, .method = RangeMethod::kMinMax, .amaxes = {6}};
  CompileOptions options;
  options.policies = parse_policy_options({.policy = policy});
  options.calibration = policy.empty() ? nullptr : &ranges;
  options.io_types = IoTypes::kPolicy;
  const Compiled plain = compile(network, options);
  options.patches = parse_patches("auto");
  if (!banks.empty()) options.target.banks = parse_bank_list(banks);
  const Compiled patched = compile(network, options);
  const LoadedModel a(plain.bytes, name, ""), b(patched.bytes, name, "");
  const std::vector<GoldenPair> expected = make_golden(a, 0, 2), found = make_golden(b, 0, 2);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].outputs != found[i].outputs) count.failed += name + ": outputs differ; ";
    count.bytes += expected[i].outputs.size();
  }
  if (expected[0].outputs == expected[1].outputs) count.failed += name + ": the same outputs for other inputs; ";
  const PatchReport& report = *patched.graph.patches;
  const uint64_t arena = patched.graph.banks[0].used;
  if (patched.graph.values[size_t(patched.graph.inputs[0].value)].bank != patched.graph.banks.size() - 1)
    count.failed += name + ": the input is not in the last bank; ";
  if (2 * arena > report.layer_bound) count.failed += name + ": more than half of the bound; ";
  const double extra = 100.0 * double(report.extra_macs) / double(report.macs);
  char line[160];
  std::snprintf(line, sizeof line, "%s %s of %s bytes (%d x %d, %+.1f%% MACs)", name.c_str(), grouped(arena).c_str(),
                grouped(report.layer_bound).c_str(), report.rows, report.columns, extra);
  std::printf("%s; arena before %s, steps %zu and %zu\n", line, grouped(report.arena_before).c_str(),
              plain.graph.nodes.size(), patched.graph.nodes.size());
  count.text += (count.text.empty() ? "" : ", ") + std::string(line);
  ++count.networks;
}

int claim() {
  Count count;
  const std::string vww = shared_path("models/mlperf_tiny/vww_96_int8.tflite"),
                    deployed = shared_path("models/tflm/mobilenet_v2_quantized_1x3x224x224.tflite");
  if (std::filesystem::exists(vww)) show("VWW beside its frame", load_network(vww), "", "sram=26K,frame", count);
  show("MobileNetV2 96", MobileNetV2().make(96), "int8/static_from_float32", "", count);
  if (!sanitized()) {
    show("MobileNetV2 96 float32", MobileNetV2().make(96), "float32", "", count);
    show("MobileNetV2 224", MobileNetV2().make(224), "int8/static_from_float32", "", count);
    if (std::filesystem::exists(deployed)) show("TinyNN's MobileNetV2 224", load_network(deployed), "", "", count);
  }
  if (!count.failed.empty()) {
    std::printf("CLAIM patches NOT SHOWN: %s\n", count.failed.c_str());
    return 1;
  }
  std::printf(
      "CLAIM patches shown: %d networks, arena of the bound layer by layer: %s; %llu bytes of outputs, 0 differ\n",
      count.networks, count.text.c_str(), static_cast<unsigned long long>(count.bytes));
  return 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(patches) {
  try {
    return nacre::test::claim();
  } catch (const std::exception& error) {
    std::printf("CLAIM patches NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
