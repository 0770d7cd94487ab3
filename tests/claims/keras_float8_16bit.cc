// Claim: float8 layers of Keras files whose source type has 16 bits infer as in Keras, with the scales of the file.
//
//   float8_from_mixed_bfloat16, _mixed_float16, _bfloat16, _float16   Dense and EinsumDense, trained some steps
//
// Each output equals Keras's or is its 16-bit neighbour. Both sum 32 products in float32, in another order, and round
// the sum. Files and outputs are in tests/peers/keras_float8_16bit.json, written by the script beside it. The
// comparison is not idle: with scales made from the kernels, as a policy without a source makes them, most outputs
// differ.
#include <cmath>
#include <cstdio>
#include <string>

#include "tests/claims/claims.h"
#include "tests/claims/keras_tables.h"
#include "tests/claims/stored_networks.h"
#include "tests/project_path.h"
#include "tools/base/error.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

struct Float8Count {
  int networks = 0, equal = 0, neighbours = 0, other = 0, equal_without_scales = 0;
  int outputs() const { return equal + neighbours + other; }
};

// Returns whether |a - b| is at most what the order of the sums can change: 32 eps of the largest sum, and half a
// 16-bit unit for each.
bool is_neighbour(float a, float b, double unit, float largest) {
  return std::abs(double(a) - double(b)) <= 2 * unit * std::abs(double(b)) + 32 * 0x1p-23 * double(largest);
}

void compare_float8_file(const Json& record, Float8Count& count) {
  constexpr size_t kRows = 16;
  const std::string policy = record.at("policy");
  const Bytes file = decode_base64(record.at("file"));
  StoredNetwork network = {.name = record.at("kind").get<std::string>() + ", " + policy,
                           .file = {file.begin(), file.end()}};
  const std::vector<float> x = elements_of<float>(decode_base64(record.at("x"))),
                           y = elements_of<float>(decode_base64(record.at("y")));
  const std::vector<float> found = run_stored(network, {x}, kRows);
  network.change = [](Graph& graph) {
    for (Value& value : graph.values)
      if (value.constant()) value.amaxes.clear();
  };
  const std::vector<float> without = run_stored(network, {x}, kRows);
  if (found.size() != y.size()) throw Error(kFailed, network.name, "has another number of outputs");
  float largest = 0;
  for (const float v : y) largest = std::max(largest, std::abs(v));
  const double unit = policy.ends_with("float32") ? 0 : policy.ends_with("bfloat16") ? 0x1p-8 : 0x1p-11;
  Float8Count own;
  for (size_t i = 0; i < y.size(); ++i) {
    const bool equal = found[i] == y[i], near = is_neighbour(found[i], y[i], unit, largest);
    (equal ? own.equal : near ? own.neighbours : own.other) += 1;
    own.equal_without_scales += without[i] == y[i] ? 1 : 0;
  }
  std::printf("%-48s equal %d, neighbours %d, other %d; without the file's scales equal %d\n", network.name.c_str(),
              own.equal, own.neighbours, own.other, own.equal_without_scales);
  ++count.networks;
  count.equal += own.equal;
  count.neighbours += own.neighbours;
  count.other += own.other;
  if (unit > 0) count.equal_without_scales += own.equal_without_scales;
}

}  // namespace

NACRE_CLAIM(keras_float8_16bit) {
  const Json table = read_table(project_path("tests/peers/keras_float8_16bit.json"));
  Float8Count all;
  for (const Json& record : table.at("records")) compare_float8_file(record, all);
  if (all.other > 0)
    return std::printf(
               "CLAIM keras_float8_16bit NOT SHOWN: %d of %d outputs are neither Keras's nor their "
               "neighbours\n",
               all.other, all.outputs()),
           1;
  if (2 * all.equal_without_scales > all.outputs())
    return std::printf("CLAIM keras_float8_16bit NOT SHOWN: without the file's scales it is the same\n"), 1;
  std::printf(
      "CLAIM keras_float8_16bit shown: of %d outputs of %d files %d are Keras's to the bit, %d its neighbours; "
      "without the scales of the file %d are equal\n",
      all.outputs(), all.networks, all.equal, all.neighbours, all.equal_without_scales);
  return 0;
}

}  // namespace nacre::test
