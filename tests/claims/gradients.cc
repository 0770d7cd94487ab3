// Claim gradients: every row of every op's gradient table, for every input, agrees with central differences in
// float64. Every such row that is made wrong on purpose is found wrong.
//
//   gradients [cases per op] [seed]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "tests/claims/claims.h"
#include "tests/gradient_check.h"
#include "tests/op_rows.h"

namespace nacre::test {
namespace {

constexpr size_t kMostElements = 16;  // in one input of one case

// One target of one case: the elements whose gradient the table must give.
struct Check {
  std::shared_ptr<const Linearized> step;
  Target target;
  std::vector<int64_t> elements;
  std::vector<Difference> expected;
};

struct Report {
  int cases = 0, rows = 0, ops = 0, wrong = 0, caught = 0, failures = 0;
  int64_t elements = 0;
  double worst = 0;  // largest error, in tolerances

  void fail(const std::string& what) {
    if (++failures <= 20) std::printf("FAILED %s\n", what.c_str());
  }
};

Check prepare(const std::shared_ptr<const Linearized>& step, const Target& target, Random& random) {
  Check check = {step, target, {}, {}};
  const int64_t count = step->made.inputs[size_t(target.input)].elements();
  for (int64_t i = 0; i < count; ++i) check.elements.push_back(i);
  if (count > int64_t(kMostElements)) {
    std::shuffle(check.elements.begin(), check.elements.end(), random);
    check.elements.resize(kMostElements);
  }
  for (const int64_t element : check.elements) check.expected.push_back(difference(*step, target.input, element));
  return check;
}

// Returns "" if the gradient is right. Counts `worst` and `elements` in `report`, if given.
std::string judge(const Check& check, const TableGradient& gradient, Report* report) {
  if (!gradient.why.empty()) return gradient.why;
  for (size_t i = 0; i < check.elements.size(); ++i) {
    const double got = gradient.value.real(check.elements[i]);
    const auto [want, tolerance] = check.expected[i];
    const double error = std::abs(got - want);
    if (!(error <= tolerance)) {
      char text[160];
      std::snprintf(text, sizeof text, "element %lld: %.12g, central difference %.12g +- %.3g",
                    static_cast<long long>(check.elements[i]), got, want, tolerance);
      return text;
    }
    if (report == nullptr) continue;
    ++report->elements;
    if (tolerance > 0) report->worst = std::max(report->worst, error / tolerance);
  }
  return "";
}

const char* input_name(const OpRule& rule, uint8_t input) { return rule.inputs[input]; }
std::string name_of(Op op) {
  return op == Op::kNone ? "no step" : find_rule(op) == nullptr ? "an unknown op" : find_rule(op)->name;
}

// Returns the mutations of a row: one element of the gradient, one term, each operand whose values matter.
std::vector<Mutation> mutations(const OpRow& row, const Gradient& gradient, size_t index) {
  std::vector<Mutation> all = {{Mutation::kElement}, {Mutation::kTerm}};
  for (int read = 0; read < int(gradient.reads.size()); ++read)
    if ((row.shape_only >> (read + 8 * int(index)) & 1) == 0) all.push_back({Mutation::kReversed, read});
  return all;
}

// Returns whether some case notices the mutation. Sets `possible` if the mutation changes anything in a case.
bool noticed(const std::vector<Check>& checks, Mutation mutation, Random& random, bool& possible) {
  possible = false;
  for (const Check& check : checks) {
    mutation.element =
        mutation.kind == Mutation::kElement ? size_t(check.elements[random() % check.elements.size()]) : random();
    const TableGradient gradient = table_gradient(*check.step, check.target, mutation);
    possible |= gradient.changed;
    if (gradient.changed && !judge(check, gradient, nullptr).empty()) return true;
  }
  return false;
}

void try_mutations(const OpRule& rule, const OpRow& row, size_t index, const std::string& name,
                   const std::vector<Check>& checks, Random& random, Report& report) {
  for (const Mutation& mutation : mutations(row, rule.gradients[index], index)) {
    bool possible = false;
    const bool caught = noticed(checks, mutation, random, possible);
    if (!possible) continue;  // an operand of one element has no other order
    ++report.wrong;
    report.caught += caught;
    if (!caught)
      report.fail(name + ": not noticed when wrong (kind " + std::to_string(mutation.kind) + ", read " +
                  std::to_string(mutation.read) + ")");
  }
}

void try_op(const OpRule& rule, int cases, uint64_t seed, Report& report) {
  if (std::ranges::all_of(rule.gradients, [](const Gradient& row) { return row.of.empty(); })) return;  // no input
  const OpRow* row = find_gradient_row(rule.op);
  if (row == nullptr) return report.fail(std::string(rule.name) + ": no row in cases_gradients.cc");
  ++report.ops;
  std::map<std::pair<size_t, uint8_t>, std::vector<Check>> checks;  // by row, and by the table's input
  for (int i = 0; i < cases; ++i) {
    Random random(seed + uint64_t(i) * 1000003 + uint64_t(rule.op));
    GradientCase made;
    row->gradient(random, made);
    const auto step = std::make_shared<const Linearized>(linearize(*row, made, random));
    if (!step->why.empty())
      return report.fail(std::string(rule.name) + ", case " + std::to_string(i) + ": " + step->why);
    for (const Target& target : targets(*step)) {
      const auto input = uint8_t(variadic(*step->entry) ? 0 : target.input);
      checks[{target.row, input}].push_back(prepare(step, target, random));
      const Check& check = checks[{target.row, input}].back();
      const std::string wrong = judge(check, table_gradient(*step, target), &report);
      if (!wrong.empty())
        report.fail(std::string(rule.name) + ", gradient of " + input_name(rule, input) + " by " +
                    name_of(rule.gradients[target.row].by) + ", case " + std::to_string(i) + ": " + wrong);
    }
    ++report.cases;
  }
  Random random(seed);
  for (size_t index = 0; index < rule.gradients.size(); ++index)
    for (const uint8_t input : rule.gradients[index].of) {
      const Gradient& gradient = rule.gradients[index];
      const std::vector<Check>& of_row = checks[{index, input}];
      const std::string name = std::string(rule.name) + " " + input_name(rule, input) + " by " + name_of(gradient.by) +
                               (gradient.adds ? ", adds" : "");
      std::printf("  %-72s %4zu cases\n", name.c_str(), of_row.size());
      if (of_row.empty()) report.fail(name + ": no case");
      ++report.rows;
      try_mutations(rule, *row, index, name, of_row, random, report);
    }
}

int claim(int cases, uint64_t seed) {
  Report report;
  std::printf("gradients of op and input, by the step that makes them:\n");
  for (const OpRule* rule : all_rules())
    if (!rule->gradients.empty()) try_op(*rule, cases, seed, report);
  std::printf("%lld elements, worst error %.2f of its tolerance, seed %llu\n", static_cast<long long>(report.elements),
              report.worst, static_cast<unsigned long long>(seed));
  if (report.failures > 0 || report.caught != report.wrong) {
    std::printf("CLAIM gradients NOT SHOWN: %d failures\n", report.failures);
    return 1;
  }
  std::printf("CLAIM gradients shown: %d rows of %d ops, %d cases, %d of %d wrong gradients caught\n", report.rows,
              report.ops, report.cases, report.caught, report.wrong);
  return 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(gradients) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : 40;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  if (cases < 1) {
    std::printf("gradients: [cases per op] [seed]\n");
    return 2;
  }
  return nacre::test::claim(cases, seed);
}
