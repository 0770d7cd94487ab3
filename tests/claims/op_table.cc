// Claim op_table, first part: every linked reference kernel against an oracle, on random cases from a seed.
//
// Prints the table {op} x {float32, float16, bfloat16, float64, int8, other forms} x {groups, dilation, asymmetric
// padding, multiplier > 1, rank, broadcast} with the number of cases per cell. The claim fails if a cell that must
// have cases is empty, if a kernel has no cases or no oracle, or if a result is outside its tolerance. Part two, the
// ONNX node tests, is a program of its own.
//
//   op_table [cases per kernel] [seed]
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <stdexcept>

#include "engine/kernels/reference.h"
#include "engine/kernels/training.h"
#include "engine/ops/op.h"
#include "tests/claims/claims.h"
#include "tests/op_rows.h"
#include "tests/sanitized.h"

namespace nacre::test {
namespace {

constexpr const char* kFormNames[] = {"float32", "float16", "bfloat16", "float64", "int8", "other"};

struct Cell {
  int cases = 0;
  int by_trait[kTraitCount] = {};
  std::set<size_t> ranks;
};

struct Report {
  std::map<std::pair<Op, Form>, Cell> cells;
  int cases = 0, failures = 0;
  int64_t elements = 0, exact = 0;
  double worst = 0;  // largest error, in tolerances

  void fail(const std::string& what) {
    if (++failures <= 20) std::printf("FAILED %s\n", what.c_str());
  }
};

// Returns the form of an entry. All operands are of one float type (but parameters of norms, ids of embedding and the
// like may have another type), or all are int8 (but multipliers and biases are int32), or they are another mixture.
// quantize to int8 and dequantize from it count as int8.
Form form_of(const KernelEntry& entry) {
  const ElementType x = entry.operands[0].element, y = entry.operands[entry.operand_count - 1].element;
  if (x != y)
    return entry.op == Op::kQuantize && y == ElementType::kInt8     ? kInt8
           : entry.op == Op::kDequantize && x == ElementType::kInt8 ? kInt8
                                                                    : kOther;
  if (x == ElementType::kInt8) return kInt8;
  const bool mixed = entry.op == Op::kBatchNorm || entry.op == Op::kLayerNorm || entry.op == Op::kEmbedding ||
                     entry.op == Op::kResize || entry.op == Op::kTreeEnsemble || entry.op == Op::kRandom;
  if (!mixed && entry.operand_count > 2 && entry.operands[1].element != x) return kOther;
  switch (x) {
    case ElementType::kFloat32: return kFloat32;
    case ElementType::kFloat16: return kFloat16;
    case ElementType::kBfloat16: return kBfloat16;
    case ElementType::kFloat64: return kFloat64;
    default: return kOther;
  }
}

// Returns "" if the outputs are what the oracle expects.
std::string compare(const std::vector<Array>& outputs, const std::vector<Expected>& expected, Report& report) {
  if (outputs.size() != expected.size()) return "another number of outputs";
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].dims != expected[o].dims) return "output " + std::to_string(o) + " has shape " + outputs[o].text();
    for (int64_t i = 0; i < outputs[o].elements(); ++i) {
      const double got = outputs[o].real(i), want = expected[o].value[size_t(i)],
                   tolerance = expected[o].tolerance[size_t(i)];
      const double error = got == want ? 0 : std::abs(got - want);  // infinities too
      ++report.elements;
      report.exact += tolerance == 0;
      if (!(error <= tolerance))
        return "output " + std::to_string(o) + " element " + std::to_string(i) + ": " + std::to_string(got) +
               ", expected " + std::to_string(want) + " +- " + std::to_string(tolerance);
      if (tolerance > 0) report.worst = std::max(report.worst, error / tolerance);
    }
  }
  return "";
}

std::string try_case(const KernelEntry& entry, const Case& made, Random& random, Report& report) {
  const std::vector<Array> inputs = random_inputs(made, random);
  const Execution run = execute(entry, made.words, inputs);
  if (run.code != Code::kOk) return "refused with code " + std::to_string(int(run.code));
  if (run.overrun) return "wrote outside its output";
  if (run.impure) return "wrote an input";
  const std::string difference = compare(run.outputs, oracle(entry, made.words, inputs), report);
  if (!difference.empty()) return difference;
  for (int slot = 0; slot < int(inputs.size()); ++slot) {
    if ((entry.in_place >> slot & 1) == 0 || inputs[size_t(slot)].bytes.size() != run.outputs[0].bytes.size()) continue;
    if (execute_in_place(entry, made.words, inputs, slot).outputs[0].bytes != run.outputs[0].bytes)
      return "another result in place of input " + std::to_string(slot);
  }
  return "";
}

void try_entry(const reference::NamedEntry& named, int cases, uint64_t seed, Report& report) {
  const KernelEntry& entry = *named.entry;
  if (find_case_maker(entry.op) == nullptr)
    return report.fail(std::string(named.name) + ": no family of op_rows.h has the op");
  Cell& cell = report.cells[{entry.op, form_of(entry)}];
  for (int i = 0; i < cases; ++i) {
    Random random(seed + uint64_t(i));
    const Case made = random_case(entry, random);
    const std::string wrong = try_case(entry, made, random, report);
    if (!wrong.empty()) {
      report.fail(std::string(named.name) + ", seed " + std::to_string(seed + uint64_t(i)) + " (" + text(made) +
                  "): " + wrong);
      continue;
    }
    ++report.cases;
    ++cell.cases;
    cell.ranks.insert(made.inputs[0].dims.size());
    for (int t = 0; t < kTraitCount; ++t) cell.by_trait[t] += (made.traits >> t & 1) != 0;
  }
}

// Ops that only training uses have their oracles in claim `gradients` and in the tests of their families.
bool inferred(const OpRule& rule) {
  const auto list = reference::list();
  return std::any_of(list.begin(), list.end(), [&](const auto& named) { return named.entry->op == rule.op; });
}

void print_row(const OpRule& rule, Form form, Report& report) {
  const OpRow* const row = find_op_row(rule.op);
  if (row == nullptr) return report.fail(std::string(rule.name) + ": no family of op_rows.h has the op");
  const char* const name = kFormNames[std::countr_zero(unsigned(form))];
  const auto found = report.cells.find({rule.op, form});
  if (found == report.cells.end()) {
    if ((row->forms & form) != 0) report.fail(std::string(rule.name) + " has no kernel in " + name);
    return;
  }
  const Cell& cell = found->second;
  std::printf("%-18s %-8s %7d", rule.name, name, cell.cases);
  for (int t = 0; t < kTraitCount; ++t) {
    const bool expected = (row->traits >> t & 1) != 0;
    if (!expected && cell.by_trait[t] == 0) std::printf(" %9s", "-");
    else if (1 << t == kRankTrait) std::printf(" %5d/%zur", cell.by_trait[t], cell.ranks.size());
    else std::printf(" %9d", cell.by_trait[t]);
    if (expected && cell.by_trait[t] == 0)
      report.fail(std::string(rule.name) + " " + name + ": no case with " + kTraitNames[t]);
  }
  std::printf("\n");
}

int claim(int cases, uint64_t seed) {
  Report report;
  for (const reference::NamedEntry& named : reference::list()) try_entry(named, cases, seed, report);
  std::printf("%-18s %-8s %7s", "op", "form", "cases");
  for (const char* name : kTraitNames) std::printf(" %9s", name);
  std::printf("      (a/br: a cases of an unusual rank, b ranks seen)\n");
  size_t ops = 0;
  for (const OpRule* rule : all_rules()) {
    if (!inferred(*rule)) continue;
    ++ops;
    for (unsigned form = 1; form < kAllForms; form *= 2) print_row(*rule, Form(form), report);
  }
  std::printf("worst float error: %.2f of its tolerance\n", report.worst);
  if (report.failures > 0) {
    std::printf("CLAIM op_table NOT SHOWN: %d failures\n", report.failures);
    return 1;
  }
  std::printf("CLAIM op_table shown: %d cases of %zu kernels of %zu ops, %lld elements (%lld to the bit), seed %llu\n",
              report.cases, reference::list().size(), ops, static_cast<long long>(report.elements),
              static_cast<long long>(report.exact), static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(op_table) {
  const int cases = count > 1 ? std::atoi(arguments[1]) : nacre::test::sanitized() ? 13 : 300;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  if (cases < 1) {
    std::printf("op_table: [cases per kernel] [seed]\n");
    return 2;
  }
  return nacre::test::claim(cases, seed);
}
