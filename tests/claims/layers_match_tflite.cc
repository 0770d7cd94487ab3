// Claim: every tensor of the MLPerf Tiny networks matches TensorFlow Lite Micro's: codes to the bit, floats closely.
//
//   golden/tflite_layers   8 networks x 2 seeds, every operator's output: 276 tensors
//   golden/tflite          10 networks x 2 seeds, the outputs: 20
//   int8                   0 differing bytes
//   float32                |y - golden| <= 1e-5 max |golden|: sums of up to 640 products in another order or with FMA
//                          differ by about sqrt(640) 2^-24 of the largest term, 1.5e-6
//   hybrid                 kws_ref_model_float32 against LiteRT's reference kernels
//   (tests/peers/litert_kws_hybrid.json):
//                          within 1% of the tensor's largest magnitude, same argmax
//
// Three changes (a weight, a multiplier, a zero point) must each make the comparison fail, which shows that it sees
// errors.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "tests/claims/claims.h"
#include "tests/claims/executor.h"
#include "tests/project_path.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/importers/importer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;
using Json = nacre::tools::Json;
using Change = std::function<void(Graph&)>;

Bytes read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(kIo, path.string(), "cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

Json read_json(const fs::path& path) {
  const Bytes text = read_bytes(path);
  return Json::parse(text);
}

// Converts a network as convert() does, up to the plan. Tensors of operators are compared without fuse, because fuse
// drops the result of a matmul if it fuses the residual. Claim fusion_changes_nothing compares fused and unfused
// programs.
enum class Tensors { kOfOperators, kOutputs };
Graph convert(const fs::path& network, Tensors wanted) {
  Graph graph = import_network(network.string());
  check(graph);
  const auto pass = [&](auto run) {
    run();
    check(graph);
  };
  pass([&] { infer_shapes(graph); });
  pass([&] { simplify(graph); });
  pass([&] { apply_policy(graph); });
  if (wanted == Tensors::kOutputs) pass([&] { fuse(graph); });
  return graph;
}

std::vector<float> floats(const Bytes& bytes) {
  std::vector<float> result(bytes.size() / sizeof(float));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(float));
  return result;
}

struct Tally {
  int tensors = 0, int8 = 0, float32 = 0, missing = 0;
  uint64_t int8_bytes = 0, differing_bytes = 0;
  double worst = 0;  // of float32: largest difference over the tensor's largest magnitude

  bool equal(double tolerance) const { return missing == 0 && differing_bytes == 0 && worst <= tolerance; }
};

// Returns the largest |a - b| over the largest |b|; infinity if the sizes differ or a number is NaN.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, magnitude = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    difference = std::max(difference, std::abs(double(a[i]) - double(b[i])));
    magnitude = std::max(magnitude, std::abs(double(b[i])));
  }
  return difference == 0 ? 0 : difference / magnitude;
}

void compare(const Bytes& found, const Bytes& golden, bool is_int8, const std::string& place, Tally& tally) {
  constexpr double kTolerance = 1e-5;
  ++tally.tensors;
  if (is_int8) {
    ++tally.int8;
    tally.int8_bytes += golden.size();
    uint64_t differing = found.size() == golden.size() ? 0 : golden.size();
    for (size_t i = 0; found.size() == golden.size() && i < golden.size(); ++i)
      differing += found[i] != golden[i] ? 1 : 0;
    tally.differing_bytes += differing;
    if (differing > 0)
      std::printf("  %s: %llu of %zu bytes differ\n", place.c_str(), static_cast<unsigned long long>(differing),
                  golden.size());
    return;
  }
  ++tally.float32;
  const double worst = relative_difference(floats(found), floats(golden));
  tally.worst = std::max(tally.worst, worst);
  if (worst > kTolerance) std::printf("  %s: differs by %.3g of its largest magnitude\n", place.c_str(), worst);
}

// Compares every operator's output with one folder of golden/tflite_layers.
Tally compare_layers(const Graph& graph, const fs::path& folder) {
  const std::map<std::string, Bytes> tensors = execute(graph, {read_bytes(folder / "input.bin")});
  Tally tally;
  for (const Json& row : read_json(folder / "index.json")) {
    char file[16];
    std::snprintf(file, sizeof file, "op%02d.bin", row.at("op").get<int>());
    const std::string name = row.at("name"), place = folder.filename().string() + " " + file + " " + name.substr(0, 60);
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      ++tally.missing;
      std::printf("  %s: no such tensor\n", place.c_str());
      continue;
    }
    compare(found->second, read_bytes(folder / file), row.at("type") == "int8", place, tally);
  }
  return tally;
}

void add(Tally& sum, const Tally& part) {
  sum.tensors += part.tensors;
  sum.int8 += part.int8;
  sum.float32 += part.float32;
  sum.missing += part.missing;
  sum.int8_bytes += part.int8_bytes;
  sum.differing_bytes += part.differing_bytes;
  sum.worst = std::max(sum.worst, part.worst);
}

Tally all_layers(const fs::path& shared) {
  Tally sum;
  std::vector<fs::path> folders(fs::directory_iterator(shared / "golden/tflite_layers"), fs::directory_iterator());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string(), network = name.substr(0, name.find(".s"));
    const Graph graph = convert(shared / "models/mlperf_tiny" / (network + ".tflite"), Tensors::kOfOperators);
    add(sum, compare_layers(graph, folder));
  }
  return sum;
}

Tally all_outputs(const fs::path& shared) {
  Tally tally;
  const Json index = read_json(shared / "golden/tflite/index.json");
  for (const Json& entry : index.at("entries")) {
    const fs::path network = shared / "models/mlperf_tiny" / entry.at("model").get<std::string>();
    const Graph graph = convert(network, Tensors::kOutputs);
    std::vector<Bytes> inputs;
    for (const Json& input : entry.at("inputs"))
      inputs.push_back(read_bytes(shared / "golden/tflite" / input.at("file").get<std::string>()));
    const std::map<std::string, Bytes> tensors = execute(graph, inputs);
    size_t i = 0;
    for (const Json& output : entry.at("outputs")) {
      const std::string file = output.at("file");
      const std::string& name = graph.values[size_t(graph.outputs.at(i++).value)].name;
      compare(tensors.at(name), read_bytes(shared / "golden/tflite" / file), output.at("dtype") == "INT8", file, tally);
    }
  }
  return tally;
}

// Returns the first step of op `op`, for a change.
Node& first(Graph& graph, Op op) {
  for (Node& node : graph.nodes)
    if (node.op == op) return node;
  throw Error(kFailed, "perturbation", "the network has no such step");
}

// Adds to one element of the step's constant operand `slot`.
template <class T>
void change_operand(Graph& graph, Node& node, size_t slot, size_t element, T by) {
  Value& value = graph.values[size_t(node.inputs[slot])];
  Bytes bytes = *value.data;
  T number;
  std::memcpy(&number, &bytes[element * sizeof(T)], sizeof(T));
  number = T(number + by);
  std::memcpy(&bytes[element * sizeof(T)], &number, sizeof(T));
  value.data = std::make_shared<const Bytes>(std::move(bytes));
}

struct Perturbation {
  const char* name;
  Change change;
};

// Small changes that the comparison must see: a weight by 1, a multiplier by about 1% (2^24), a zero point by 1.
const std::vector<Perturbation>& perturbations() {
  static const std::vector<Perturbation> kAll = {
      {"weight", [](Graph& g) { change_operand<int8_t>(g, first(g, Op::kConv2d), 1, 7, 1); }},
      {"multiplier", [](Graph& g) { change_operand<int32_t>(g, first(g, Op::kConv2d), 3, 0, -(1 << 24)); }},
      {"zero point",
       [](Graph& g) {
         Node& node = first(g, Op::kDense);
         set_integer(node, "x_zero", get_integer(node, "x_zero") + 1);
       }},
  };
  return kAll;
}

bool all_perturbations_fail(const fs::path& shared, std::string& report) {
  const Graph graph = convert(shared / "models/mlperf_tiny/kws_ref_model.tflite", Tensors::kOfOperators);
  bool all = true;
  for (const Perturbation& p : perturbations()) {
    Graph changed = graph;
    p.change(changed);
    std::printf("perturbed %s:\n", p.name);
    const Tally tally = compare_layers(changed, shared / "golden/tflite_layers/kws_ref_model.s1");
    all = all && !tally.equal(1e-5);
    report += std::string(report.empty() ? "" : ", ") + p.name + " " + std::to_string(tally.differing_bytes) + " bytes";
  }
  return all;
}

// Makes the input of tests/peers/litert_kws_hybrid.py: u = 49 + 10 numbers in [-1, 1) of splitmix64(seed), x[r, c] =
// 16 (u[r] + u[49 + c]).
Bytes hybrid_input(uint64_t seed) {
  constexpr size_t kRows = 49, kColumns = 10;
  float u[kRows + kColumns], x[kRows * kColumns];
  for (float& v : u) {
    seed += 0x9E3779B97F4A7C15;
    uint64_t z = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    v = float(z >> 40) / 16777216.0f * 2 - 1;
  }
  for (size_t i = 0; i < kRows * kColumns; ++i) x[i] = (u[i / kColumns] + u[kRows + i % kColumns]) * 16.0f;
  Bytes bytes(sizeof x);
  std::memcpy(bytes.data(), x, sizeof x);
  return bytes;
}

struct Hybrid {
  int layers = 0, inputs = 0, same_class = 0, classes = 0;
  double worst = 0;  // largest difference over the tensor's largest magnitude

  bool equal() const { return layers > 0 && inputs > 0 && worst <= 0.01 && classes == 100 && same_class == classes; }
};

// Returns the largest difference of one layer's sampled elements and of its mean, so that a mean that is off by more
// than 1% is seen too.
double difference_of_layer(const Json& layer, const Json& golden, const std::vector<float>& y) {
  const size_t stride = layer.at("stride");
  const double magnitude = golden.at("max_magnitude"), golden_sum = golden.at("sum");
  double worst = 0, sum = 0;
  for (size_t i = 0; i < golden.at("samples").size(); ++i)
    worst = std::max(worst, std::abs(double(y.at(i * stride)) - golden.at("samples")[i].get<double>()) / magnitude);
  for (const float v : y) sum += double(v);
  return std::max(worst, std::abs(sum - golden_sum) / double(y.size()) / magnitude);
}

Hybrid compare_hybrid(const fs::path& shared, const fs::path& root) {
  const Json table = read_json(root / "tests/peers/litert_kws_hybrid.json");
  const Graph graph = convert(shared / "models/mlperf_tiny/kws_ref_model_float32.tflite", Tensors::kOutputs);
  const std::string& output = graph.values[size_t(graph.outputs.at(0).value)].name;
  Hybrid result;
  result.layers = int(table.at("layers").size());
  for (const Json& expected : table.at("argmax")) {
    const std::map<std::string, Bytes> tensors = execute(graph, {hybrid_input(uint64_t(result.classes) + 1)});
    const std::vector<float> scores = floats(tensors.at(output));
    result.same_class += std::max_element(scores.begin(), scores.end()) - scores.begin() == expected.get<int>() ? 1 : 0;
    for (const Json& layer : table.at("layers")) {
      if (size_t(result.classes) >= layer.at("inputs").size()) break;
      const Json& golden = layer.at("inputs")[size_t(result.classes)];
      const double worst = difference_of_layer(layer, golden, floats(tensors.at(layer.at("name").get<std::string>())));
      if (worst > 0.01)
        std::printf("  hybrid input %d, %s: differs by %.3g\n", result.classes + 1,
                    layer.at("op").get<std::string>().c_str(), worst);
      result.worst = std::max(result.worst, worst);
      result.inputs = result.classes + 1;
    }
    ++result.classes;
  }
  return result;
}

int claim(const fs::path& shared, const fs::path& root) {
  const Tally layers = all_layers(shared), outputs = all_outputs(shared);
  std::string report;
  const bool sharp = all_perturbations_fail(shared, report);
  const Hybrid hybrid = compare_hybrid(shared, root);
  const bool shown = layers.equal(1e-5) && outputs.equal(1e-5) && layers.tensors == 276 && outputs.tensors == 20 &&
                     sharp && hybrid.equal();
  std::printf(
      "CLAIM layers_match_tflite %s: %d of %d compared, %d int8 (%llu bytes, %llu differ), %d float32 (worst %.2g of "
      "the "
      "largest magnitude, allowed 1e-5); outputs %d of 20, %llu bytes differ, worst %.2g; perturbed and seen: %s; "
      "hybrid %d layers on %d inputs, worst %.2g (allowed 0.01), class %d of %d; by the %s\n",
      shown ? "shown" : "NOT shown", layers.tensors, layers.tensors + layers.missing, layers.int8,
      static_cast<unsigned long long>(layers.int8_bytes), static_cast<unsigned long long>(layers.differing_bytes),
      layers.float32, layers.worst, outputs.tensors, static_cast<unsigned long long>(outputs.differing_bytes),
      outputs.worst, report.c_str(), hybrid.layers, hybrid.inputs, hybrid.worst, hybrid.same_class, hybrid.classes,
      executor_name());
  return shown ? kSuccess : kFailed;
}

}  // namespace
}  // namespace nacre::tools

NACRE_CLAIM(layers_match_tflite) {
  constexpr int kSkipped = 77;  // meson's code for a skipped test
  const std::filesystem::path root = nacre::tools::project_path(""), shared = nacre::tools::shared_path("");
  if (!std::filesystem::exists(shared / "golden/tflite_layers")) {
    std::printf("CLAIM layers_match_tflite skipped: no shared data at %s\n", shared.c_str());
    return kSkipped;
  }
  try {
    return nacre::tools::claim(shared, root);
  } catch (const std::exception& error) {
    std::printf("CLAIM layers_match_tflite NOT shown: %s\n", error.what());
    return 1;
  }
}
