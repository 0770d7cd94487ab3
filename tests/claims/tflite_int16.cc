// Claim: TensorFlow Lite Micro's 127 one-operator networks with int16 activations and int8 weights (int16x8) give the
// codes of its golden outputs to the bit.
//
//   claims tflite_int16 FOLDER     FOLDER/OPERATOR/NAME.tflite, NAME_input0_int16.csv .., NAME_golden_int16.csv
//
// Each network is imported, converted, written as a model, opened, bound in the caller's memory and run by the
// reference kernels. It must use integers all the way. Three changes (a weight, a bias, a multiplier) must each show.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "tests/claims/claims.h"
#include "tests/claims/executor.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;
using Codes = std::vector<int64_t>;

constexpr int kOperators = 127;

struct Int16Network {
  fs::path file;
  std::string name;  // "conv/conv3"

  explicit Int16Network(fs::path path)
      : file(std::move(path)), name((file.parent_path().filename() / file.stem()).string()) {}

  // Returns the numbers of NAME_<what>_<type>.csv, for the type that exists.
  Codes csv(const std::string& what) const {
    for (const char* type : {"int16", "int32"}) {
      const fs::path path = file.parent_path() / (file.stem().string() + "_" + what + "_" + type + ".csv");
      std::ifstream stream(path, std::ios::binary);
      if (stream) return numbers({std::istreambuf_iterator<char>(stream), {}});
    }
    throw Error(kIo, name, "has no CSV of " + what);
  }

 private:
  static Codes numbers(const std::string& text) {
    Codes all;
    const char *at = text.data(), *const end = at + text.size();
    while (at < end) {
      int64_t number = 0;
      const auto [rest, error] = std::from_chars(at, end, number);
      if (error == std::errc()) all.push_back(number);
      at = error == std::errc() ? rest : at + 1;
    }
    return all;
  }
};

Bytes packed_codes(const Codes& codes, ElementType type) {
  const size_t size = element_bits(type) / 8;
  Bytes bytes(codes.size() * size);
  for (size_t i = 0; i < codes.size(); ++i) std::memcpy(&bytes[i * size], &codes[i], size);  // little-endian
  return bytes;
}

Graph converted(const Int16Network& network) {
  Graph graph = import_network(network.file.string());
  infer_shapes(graph);
  simplify(graph);
  apply_policy(graph);
  fuse(graph);
  check(graph);
  return graph;
}

bool stays_integer(const Graph& graph) {
  return std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return is_float_type(graph.values[size_t(node.inputs[0])].type) ||
           is_float_type(graph.values[size_t(node.outputs[0])].type);
  });
}

struct Difference {
  size_t values = 0, differing = 0;
};

Difference compared(const Graph& graph, const Int16Network& network) {
  std::vector<Bytes> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    inputs.push_back(
        packed_codes(network.csv("input" + std::to_string(i)), graph.values[size_t(graph.inputs[i].value)].type));
  const Value& y = graph.values[size_t(graph.outputs.at(0).value)];
  const Codes golden = network.csv("golden");
  const Bytes found = execute(graph, inputs).at(y.name), wanted = packed_codes(golden, y.type);
  Difference difference = {golden.size(), found.size() == wanted.size() ? 0 : golden.size()};
  const size_t size = element_bits(y.type) / 8;
  for (size_t i = 0; found.size() == wanted.size() && i < golden.size(); ++i)
    difference.differing += std::memcmp(&found[i * size], &wanted[i * size], size) != 0 ? 1 : 0;
  return difference;
}

// Adds to one element of constant operand `slot` of the convolution.
template <class T>
void change_constant(Graph& graph, size_t slot, T by) {
  for (Node& node : graph.nodes) {
    if (node.op != Op::kConv2d) continue;
    Value& value = graph.values[size_t(node.inputs[slot])];
    Bytes bytes = *value.data;
    T number;
    std::memcpy(&number, bytes.data(), sizeof number);
    number = T(number + by);
    std::memcpy(bytes.data(), &number, sizeof number);
    value.data = std::make_shared<const Bytes>(std::move(bytes));
  }
}

// Changes a weight by 1, a bias by less than a code of y, and a multiplier by 1%; each must show.
bool perturbations_show(const Int16Network& network) {
  const Graph graph = converted(network);
  size_t differing[3];
  for (size_t slot = 1; slot <= 3; ++slot) {
    Graph changed = graph;
    if (slot == 1) change_constant<int8_t>(changed, slot, 1);
    if (slot == 2) change_constant<int64_t>(changed, slot, 200);
    if (slot == 3) change_constant<int32_t>(changed, slot, -(1 << 24));
    differing[slot - 1] = compared(changed, network).differing;
  }
  std::printf("perturbed %s: weight %zu, bias %zu, multiplier %zu codes differ\n", network.name.c_str(), differing[0],
              differing[1], differing[2]);
  return std::all_of(std::begin(differing), std::end(differing), [](size_t n) { return n > 0; });
}

std::vector<Int16Network> networks_in(const fs::path& folder) {
  std::vector<Int16Network> networks;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".tflite") networks.emplace_back(entry.path());
  std::sort(networks.begin(), networks.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return networks;
}

// Returns whether all codes are equal, and every step uses integers only.
bool is_equal(const Int16Network& network, Difference& all) try {
  const Graph graph = converted(network);
  const Difference difference = compared(graph, network);
  all.values += difference.values;
  all.differing += difference.differing;
  const bool integer = stays_integer(graph), equal = difference.differing == 0 && integer;
  if (!equal)
    std::printf("%s: %zu of %zu codes differ%s\n", network.name.c_str(), difference.differing, difference.values,
                integer ? "" : ", and a step runs in float");
  return equal;
} catch (const Error& error) {
  std::printf("%s: %s\n", network.name.c_str(), error.what());
  return false;
}

int claim_int16(const fs::path& folder) {
  std::map<std::string, int> equal;  // equal networks, by operator
  Difference all;
  int operators = 0;
  bool changes_show = false;
  for (const Int16Network& network : networks_in(folder)) {
    if (!is_equal(network, all)) continue;
    ++operators;
    ++equal[network.file.parent_path().filename().string()];
    if (network.name == "conv/conv1") changes_show = perturbations_show(network);
  }
  for (const auto& [op, count] : equal) std::printf("%-16s %d\n", op.c_str(), count);
  const bool shown = operators == kOperators && changes_show;
  std::printf("CLAIM tflite_int16 %s: %d operators, %zu values, %zu differ\n", shown ? "shown" : "NOT SHOWN", operators,
              all.values, all.differing);
  return shown ? 0 : 1;
}

}  // namespace
}  // namespace nacre::tools

NACRE_CLAIM(tflite_int16) {
  if (count != 2) {
    std::printf("claims tflite_int16 FOLDER\n");
    return 2;
  }
  return nacre::tools::claim_int16(arguments[1]);
}
