// onnx_node_tests DATA EXPECTED [--write]
//
// Runs ONNX's backend tests: import, the passes of `nacre convert`, then the executor that is linked
// (tests/claims/executor.h). Prints a row per operator and every reason for a refusal. A test that stands in EXPECTED
// and does not pass, or any wrong result, fails; --write makes the list anew.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/claims/executor.h"
#include "tests/onnx/node_case.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"
#include "tools/importers/onnx/import.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

constexpr int kLeastOfNode = 1250;  // of the tests of operators

struct Outcome {
  enum Kind { kPassed, kFolded, kUnsupported, kWrong } kind;
  std::string why;
};

struct Row {
  int selected = 0, passed = 0, folded = 0, unsupported = 0, wrong = 0;
};

Graph converted(const NodeCase& test) {
  Graph graph = import_onnx(test.model, test.name, {});
  check(graph);
  simplify(graph);
  check(graph);
  apply_policy(graph);
  check(graph);
  fuse(graph);
  check(graph);
  return graph;
}

// Returns whether the test's numbers are one random draw, of which only types and shapes are compared.
bool draws(const NodeCase& test) {
  static const std::set<std::string> kRandom = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                                "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  return std::ranges::any_of(test.ops, [&](const std::string& op) { return kRandom.contains(op); });
}

Outcome compare(const NodeCase& test, const Graph& graph, const std::map<std::string, Bytes>& tensors) {
  if (graph.outputs.size() != test.outputs.size()) return {Outcome::kWrong, "another number of outputs"};
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Value& y = graph.values[size_t(graph.outputs[i].value)];
    const auto bytes = tensors.find(y.name);
    if (bytes == tensors.end()) return {Outcome::kWrong, "output " + y.name + " was not computed"};
    const Value& expected = test.outputs[i];
    const bool alike = draws(test) && expected.type == y.type && expected.dims == y.dims;
    const std::string what = alike ? "" : difference(expected, y.type, y.dims, bytes->second);
    if (!what.empty()) return {Outcome::kWrong, "output " + std::to_string(i) + ": " + what};
  }
  return {test.folded ? Outcome::kFolded : Outcome::kPassed, ""};
}

// Returns whether a folded output is NaN, which the model file refuses.
bool stores_nan(const NodeCase& test) {
  const auto is_nan = [](float number) { return std::isnan(number); };
  return test.folded && std::any_of(test.outputs.begin(), test.outputs.end(), [&](const Value& y) {
           if (!is_float_type(y.type)) return false;
           const std::vector<float> numbers = reals(y);
           return std::any_of(numbers.begin(), numbers.end(), is_nan);
         });
}

// Returns whether the test expects rounding errors beyond its own tolerance: 1.9e-7 where the transform is 0.
bool expects_rounding(const std::string& name) {
  return name == "node/test_dft_inverse" || name == "node/test_dft_inverse_opset19";
}

// Returns whether the test has another reading of the standard. With scales of 0.6 four elements become two, whose
// corners these tests put 0.6 * 4 - 1 apart. The standard's text, PyTorch and onnxruntime, which skips these tests,
// have 2 - 1, as here.
bool reads_otherwise(const std::string& name) {
  return name == "node/test_resize_downsample_scales_cubic_align_corners" ||
         name == "node/test_resize_downsample_scales_linear_align_corners";
}

Outcome run_case(const NodeCase& test) {
  Graph graph;
  if (expects_rounding(test.name))
    return {Outcome::kUnsupported, test.name + ": expects the rounding of the reference"};
  if (reads_otherwise(test.name)) return {Outcome::kUnsupported, test.name + ": reads the standard in another way"};
  if (stores_nan(test)) return {Outcome::kUnsupported, test.name + ": stored values that are not numbers"};
  try {
    graph = converted(test);
    if (!test.unreadable.empty()) return {Outcome::kUnsupported, test.unreadable};
  } catch (const Error& error) {
    return {error.code == kUnsupported ? Outcome::kUnsupported : Outcome::kWrong, error.what()};
  }
  try {
    std::vector<Bytes> inputs;
    for (const Value& x : test.inputs) inputs.push_back(*x.data);
    return compare(test, graph, execute(graph, inputs));
  } catch (const std::exception& error) {  // converted, so it must run
    return {Outcome::kWrong, error.what()};
  }
}

// Shortens "name (op): the reason (names)\n remedy" to "op: the reason", so that equal reasons are counted together.
std::string reason_of(const std::string& what) {
  const size_t listed = what.find("supported:\n  ");
  std::string text = listed == std::string::npos ? what : what.substr(listed + 13);
  text = text.substr(0, text.find('\n'));
  const size_t place = text.find("): "), colon = text.find(": ");
  if (place != std::string::npos) {
    const std::string op = text.substr(text.rfind('(', place) + 1, place - text.rfind('(', place) - 1);
    text = text.substr(place + 3);
    return op + ": " + text.substr(0, text.find(" ("));
  }
  if (colon != std::string::npos) text = text.substr(colon + 2);
  return text.substr(0, text.find(" ("));
}

class Report {
 public:
  void add(const NodeCase& test, const Outcome& outcome) {
    Row& row = rows_[test.ops.size() == 1 ? test.ops[0] : "(several)"];
    for (Row* r : {&row, &total_, &suites_[test.name.substr(0, test.name.find('/'))]}) {
      ++r->selected;
      int Row::*const kCounts[] = {&Row::passed, &Row::folded, &Row::unsupported, &Row::wrong};
      ++(r->*kCounts[outcome.kind]);
    }
    if (outcome.kind == Outcome::kUnsupported)
      ++reasons_[test.ops.size() == 1 ? test.ops[0] : "(several)"][reason_of(outcome.why)];
    if (outcome.kind == Outcome::kWrong) wrong_.push_back(test.name + ": " + outcome.why);
    if (outcome.kind == Outcome::kPassed || outcome.kind == Outcome::kFolded) passed_.insert(test.name);
  }

  void print() const {
    std::printf("%-24s %8s %8s %8s %12s %8s\n", "operator", "selected", "passed", "folded", "unsupported", "wrong");
    for (const auto& [op, row] : rows_) print_row(op, row);
    for (const auto& [suite, row] : suites_) print_row(suite + "/", row);
    print_row("all", total_);
    std::printf("\nunsupported, by reason:\n");
    for (const auto& [op, reasons] : reasons_)
      for (const auto& [reason, count] : reasons) std::printf("  %4d %-20s %s\n", count, op.c_str(), reason.c_str());
    for (const std::string& line : wrong_) std::printf("WRONG %s\n", line.c_str());
  }

  bool holds(const std::string& expected_path) const {
    std::ifstream file(expected_path);
    if (!file) throw Error(kIo, expected_path, "cannot be opened", "make it with --write");
    bool holds = wrong_.empty();
    int expected = 0;
    for (std::string name; std::getline(file, name); ++expected)
      if (!passed_.contains(name)) {
        std::printf("LEFT THE LIST %s\n", name.c_str());
        holds = false;
      }
    std::printf("%zu passed, %d expected to (executor: %s)\n", passed_.size(), expected, executor_name());
    return holds;
  }

  void write(const std::string& expected_path) const {
    std::ofstream file(expected_path);
    for (const std::string& name : passed_) file << name << '\n';
  }

  void claim(bool holds) const {
    std::string facts;
    for (const auto& [suite, row] : suites_)
      facts += fmt::format("{}{}: {} selected, {} passed, {} folded into constants, {} unsupported with a reason",
                           facts.empty() ? "" : "; ", suite, row.selected, row.passed, row.folded, row.unsupported);
    const bool shown = holds && wrong_.empty() && suites_.at("node").passed >= kLeastOfNode;
    fmt::print("CLAIM onnx_node_suite {}: {}; {} wrong\n", shown ? "shown" : "NOT SHOWN", facts, total_.wrong);
  }

 private:
  static void print_row(const std::string& op, const Row& row) {
    std::printf("%-24s %8d %8d %8d %12d %8d\n", op.c_str(), row.selected, row.passed, row.folded, row.unsupported,
                row.wrong);
  }

  std::map<std::string, Row> rows_, suites_;
  std::map<std::string, std::map<std::string, int>> reasons_;
  Row total_;
  std::set<std::string> passed_;
  std::vector<std::string> wrong_;
};

int run(const std::string& data, const std::string& expected, bool write) {
  Report report;
  for (const std::string& name : list_cases(data, {"node", "pytorch-converted", "pytorch-operator", "simple"})) {
    const NodeCase test = load_case(data, name);
    report.add(test, run_case(test));
  }
  report.print();
  if (write) report.write(expected);
  const bool holds = report.holds(expected);
  report.claim(holds);
  return holds ? kSuccess : kFailed;
}

}  // namespace
}  // namespace nacre::tools

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  if (given.size() < 2 || given.size() > 3 || (given.size() == 3 && given[2] != "--write")) {
    std::fprintf(stderr, "onnx_node_tests DATA EXPECTED [--write]\n");
    return nacre::tools::kUsage;
  }
  try {
    return nacre::tools::run(given[0], given[1], given.size() == 3);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "onnx_node_tests: %s\n", error.what());
    return nacre::tools::kFailed;
  }
}
