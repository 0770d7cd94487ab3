// Claim: normalisations in 16 bits give the numbers of Keras, torch and onnxruntime, for magnitudes from 1e-4 to 3e4.
//
// tests/peers/half_norms.json holds files, inputs, outputs and bounds, written by the script beside it. If the source
// itself gives only zeros or numbers that are not finite (Keras's UnitNormalization squares in float16), so must the
// model. The bound is not loose: runs in the policy's type, without float32 inside, exceed it.
#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "tests/claims/claims.h"
#include "tests/claims/keras_tables.h"
#include "tests/claims/stored_networks.h"
#include "tests/project_path.h"
#include "tools/base/error.h"

namespace nacre::test {
namespace {

using namespace nacre::tools;

struct NormCount {
  int networks = 0, runs = 0, narrow_passes = 0;
  std::map<std::string, int> by_source;
  std::string wrong;
};

// Returns the largest difference, as a multiple of the bound. If the bound is 0, returns 0 if each number equals the
// source's or both are not finite, else infinity.
double share_of_bound(const std::vector<float>& found, const std::vector<float>& expected, double bound) {
  if (found.size() != expected.size()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool alike = found[i] == expected[i] || (!std::isfinite(found[i]) && !std::isfinite(expected[i]));
    if (bound == 0 && !alike) return INFINITY;
    if (bound == 0) continue;
    if (!std::isfinite(found[i])) return INFINITY;
    most = std::max(most, std::abs(double(found[i]) - double(expected[i])) / bound);
  }
  return most;
}

void compare_norms(const Json& record, NormCount& count) {
  const Bytes file = decode_base64(record.at("file"));
  StoredNetwork network = {.name = record.at("source").get<std::string>() + " " + record.at("name").get<std::string>(),
                           .file = {file.begin(), file.end()},
                           .policy = record.at("policy")};
  ++count.networks;
  ++count.by_source[record.at("source")];
  for (const Json& run : record.at("runs")) {
    const std::vector<float> x = elements_of<float>(decode_base64(run.at("x"))),
                             y = elements_of<float>(decode_base64(run.at("y")));
    constexpr size_t kRows = 3;
    network.change = nullptr;
    const double most = share_of_bound(run_stored(network, {x}, kRows), y, run.at("bound"));
    network.change = [](Graph& graph) {
      for (Node& node : graph.nodes) node.wide = false;
    };
    count.narrow_passes += share_of_bound(run_stored(network, {x}, kRows), y, run.at("bound")) <= 1 ? 1 : 0;
    ++count.runs;
    std::printf("%-44s %-14s %8g  %.3f of the bound\n", network.name.c_str(), network.policy.c_str(),
                run.at("magnitude").get<double>(), most);
    if (!(most <= 1))
      count.wrong += (count.wrong.empty() ? "" : "; ") + network.name + " at " + run.at("magnitude").dump();
  }
}

}  // namespace

NACRE_CLAIM(half_norms) {
  const Json table = read_table(project_path("tests/peers/half_norms.json"));
  NormCount norms;
  for (const Json& record : table.at("records")) compare_norms(record, norms);
  if (!norms.wrong.empty()) return std::printf("CLAIM half_norms NOT SHOWN: %s\n", norms.wrong.c_str()), 1;
  std::string sources;
  for (const auto& [source, networks] : norms.by_source)
    sources += (sources.empty() ? "" : ", ") + source + " " + std::to_string(networks);
  if (norms.narrow_passes == norms.runs)
    return std::printf("CLAIM half_norms NOT SHOWN: 16 bits pass the bound too\n"), 1;
  std::printf(
      "CLAIM half_norms shown: %d runs of %d networks (%s) within 5 u of their source; "
      "without float32 inside %d "
      "are not\n",
      norms.runs, norms.networks, sources.c_str(), norms.runs - norms.narrow_passes);
  return 0;
}

}  // namespace nacre::test
