// Claim kernels_correct, the part on this machine: every fast kernel of every tier that runs here agrees with the
// oracle, and so does every XNNPACK kernel if that port is built. The cases are random, with sizes around whole
// vectors. Each operand lies between pages that may not be touched, at the front page and at the back one. Kernels
// run in place if they can, with and without constants that bind prepares, and shared among three workers, which must
// not change a bit.
//
//   kernels_correct [cases per kernel] [seed] [tier|xnnpack]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "engine/ops/op.h"
#include "ports/vector/tiers.h"
#ifdef NACRE_XNNPACK
#include "ports/xnnpack/xnnpack_port.h"
#endif
#include "tests/cases.h"
#include "tests/claims/claims.h"
#include "tests/claims/kernels_correct_reference.h"
#include "tests/guarded_step.h"
#include "tests/oracle.h"
#include "tests/sanitized.h"

namespace nacre::test {
namespace {

struct Counts {
  int entries = 0, cases = 0, left = 0, failures = 0;  // left: steps left to the reference
  int64_t elements = 0, exact = 0;
  double worst = 0;    // largest error, in tolerances
  size_t tail = 0;     // Port::tail_bytes
  int64_t shares = 0;  // pieces of work that the second and third worker did
};

std::string difference(const std::vector<Array>& outputs, const std::vector<Expected>& expected, Counts& counts) {
  if (outputs.size() != expected.size()) return "another number of outputs";
  for (size_t o = 0; o < outputs.size(); ++o)
    for (int64_t i = 0; i < outputs[o].elements(); ++i) {
      const double got = outputs[o].real(i), want = expected[o].value[size_t(i)],
                   tolerance = expected[o].tolerance[size_t(i)];
      const double error = got == want || (std::isnan(got) && std::isnan(want)) ? 0 : std::abs(got - want);
      ++counts.elements;
      counts.exact += tolerance == 0;
      if (!(error <= tolerance))
        return "output " + std::to_string(o) + " element " + std::to_string(i) + ": " + std::to_string(got) +
               ", expected " + std::to_string(want) + " +- " + std::to_string(tolerance);
      if (tolerance > 0) counts.worst = std::max(counts.worst, error / tolerance);
    }
  return "";
}

// A step and its expected outputs. The oracle computes them for most ops, kernels_correct_reference.h for ops of
// training.
struct Trial {
  ReferenceCase step;
  std::string text;
};
Trial make_trial(const KernelEntry& entry, Random& random) {
  if (has_reference_case(entry.op)) {
    Trial trial = {reference_case(entry, random), "words"};
    for (const uint32_t word : trial.step.words) trial.text += ' ' + std::to_string(int32_t(word));
    for (const Array& input : trial.step.inputs) trial.text += ", " + input.text();
    return trial;
  }
  const Case made = random_case(entry, random);
  Trial trial = {{made.words, random_inputs(made, random), {}, {}}, text(made)};
  trial.step.outputs = oracle(entry, trial.step.words, trial.step.inputs);
  return trial;
}

// Makes three workers that run one after another, the last tile first. They share all work that can be shared, and
// add it to `shares`.
Workers three_workers(int64_t& shares) {
  const auto run = [](void* counted, void (*task)(void*, int, int), void* context, int tiles) {
    *static_cast<int64_t*>(counted) += tiles - 1;
    for (int tile = tiles - 1; tile >= 0; --tile) task(context, tile, tile % 3);
  };
  return {.context = &shares, .count = 3, .run = run, .least_work = 0};
}

std::vector<std::vector<uint8_t>> bytes_of(const Execution& run) {
  std::vector<std::vector<uint8_t>> all;
  for (const auto* arrays : {&run.outputs, &run.updated})
    for (const Array& array : *arrays) all.push_back(array.bytes);
  return all;
}

std::string try_case(const KernelEntry& entry, const ReferenceCase& step, Counts& counts, bool& taken) {
  std::vector<std::vector<uint8_t>> first;
  for (const Beside beside : {Beside::kFront, Beside::kBack})
    for (const bool constant : {false, true}) {
      const Execution run = execute_guarded(entry, step.words, step.inputs, beside, constant, -1, counts.tail);
      if (run.code == Code::kNoKernel) continue;
      taken = true;
      if (run.code != Code::kOk) return "refused with code " + std::to_string(int(run.code));
      if (run.overrun) return "wrote behind its scratch";
      if (run.impure) return "wrote an input";
      const std::vector<std::vector<uint8_t>> all = bytes_of(run);
      if (first.empty()) {
        std::string wrong = difference(run.outputs, step.outputs, counts);
        if (wrong.empty()) wrong = difference(run.updated, step.updated, counts);
        if (!wrong.empty()) return wrong;
        first = all;
      } else if (all != first) {
        return "another result where operands lie elsewhere or are constants";
      }
      if (beside != Beside::kBack) continue;
      const Workers three = three_workers(counts.shares);
      const Execution shared =
          execute_guarded(entry, step.words, step.inputs, beside, constant, -1, counts.tail, &three);
      if (shared.code != Code::kOk || shared.overrun || bytes_of(shared) != first)
        return "another result of three workers";
    }
  for (int slot = 0; taken && slot < int(step.inputs.size()) && slot < 8; ++slot) {
    if ((entry.in_place >> slot & 1) == 0 || step.inputs[size_t(slot)].bytes.size() != first[0].size()) continue;
    const Workers three = three_workers(counts.shares);
    for (const Workers* workers : {static_cast<const Workers*>(nullptr), &three}) {
      const Execution run =
          execute_guarded(entry, step.words, step.inputs, Beside::kBack, false, slot, counts.tail, workers);
      if (run.outputs[0].bytes != first[0])
        return "another result in place of input " + std::to_string(slot) + (workers ? ", with three workers" : "");
    }
  }
  return "";
}

// Tries one row of float8 with a NaN among the weights, which kernels may test for on the side. The NaN must make its
// column of y NaN and leave the other columns equal to the bit. It is placed at the first term, at an odd term, and
// at the last term, which has no partner; in several panels.
std::string try_nan_weight(const KernelEntry& entry) {
  constexpr ElementType kCodes = ElementType::kFloat8E4M3;
  if (entry.op != Op::kDense || entry.operands[0].element != kCodes || entry.operands[1].element != kCodes) return "";
  constexpr int kTerms = 37, kColumns = 56;
  std::vector<Array> inputs = {make_array(kCodes, {1, kTerms}), make_array(kCodes, {kColumns, kTerms}), Array()};
  while (int(inputs.size()) < input_count(entry)) {
    inputs.push_back(make_array(entry.operands[inputs.size()].element, {1}));
    inputs.back().set(0, 1);
  }
  for (Array* array : {&inputs[0], &inputs[1]})
    for (int64_t i = 0; i < array->elements(); ++i) array->set(i, double(i * 29 % 15 - 7) / 8);
  const auto run = [&] {
    return execute_guarded(entry, std::vector<uint32_t>(7), inputs, Beside::kBack, true).outputs.at(0);
  };
  const Array without = run();
  for (const int term : {0, 17, kTerms - 1})
    for (const int column : {0, 20, 37, kColumns - 1}) {
      Array& w = inputs[1];
      const double kept = w.real(column * kTerms + term);
      w.set(column * kTerms + term, std::nan(""));
      const Array with = run();
      w.set(column * kTerms + term, kept);
      for (int c = 0; c < kColumns; ++c)
        if (c == column ? !std::isnan(with.real(c)) : with.real(c) != without.real(c))
          return "a NaN of column " + std::to_string(column) + ", term " + std::to_string(term) + " makes " +
                 std::to_string(with.real(c)) + " of column " + std::to_string(c);
    }
  return "";
}

void try_entry(const reference::NamedEntry& named, const char* tier, int lanes, int cases, uint64_t seed,
               Counts& counts) {
  const KernelEntry& entry = *named.entry;
  ++counts.entries;
  if (const std::string wrong = try_nan_weight(entry); !wrong.empty()) {
    ++counts.failures;
    std::printf("FAILED %s %s: %s\n", tier, named.name, wrong.c_str());
  }
  int taken_cases = 0, tried = 0;  // more tries for kernels that take few random cases
  for (; tried < cases || (taken_cases == 0 && tried < 50 * cases); ++tried) {
    const uint64_t case_seed = seed + uint64_t(tried);
    Random random(case_seed);
    random.lanes = lanes;
    const Trial trial = make_trial(entry, random);
    bool taken = false;
    const std::string wrong = try_case(entry, trial.step, counts, taken);
    taken_cases += taken;
    if (wrong.empty()) continue;
    if (++counts.failures <= 20)
      std::printf("FAILED %s %s, seed %llu (%s): %s\n", tier, named.name, static_cast<unsigned long long>(case_seed),
                  trial.text.c_str(), wrong.c_str());
  }
  counts.cases += taken_cases;
  counts.left += tried - taken_cases;
  if (taken_cases == 0) {
    ++counts.failures;
    std::printf("FAILED %s %s takes no case\n", tier, named.name);
  }
}

// `tried` holds the entries already tried, because a tier may have entries of the tier below it.
void try_set(std::span<const reference::NamedEntry> list, const char* name, int lanes, int cases, uint64_t seed,
             std::set<const KernelEntry*>& tried, Counts& counts) {
  for (const reference::NamedEntry& named : list)
    if (!tried.insert(named.entry).second) {
      continue;
    } else if (find_case_maker(named.entry->op) == nullptr && !has_reference_case(named.entry->op)) {
      ++counts.failures;
      std::printf("FAILED %s %s has no row in cases.cc\n", name, named.name);
    } else {
      try_entry(named, name, lanes, cases, seed, counts);
    }
  std::printf("%-12s %4d entries %6d cases, %5d left to the reference, worst float error %.2f of its tolerance\n", name,
              counts.entries, counts.cases, counts.left, counts.worst);
}

}  // namespace

NACRE_CLAIM(kernels_correct) {
  const int usual = nacre::test::sanitized() ? 20 : 60;  // the oracle takes minutes in a sanitized build
  const int cases = count > 1 ? std::atoi(arguments[1]) : usual;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  std::string tiers;
  Counts all;
  std::set<const KernelEntry*> tried;
  const auto add = [&](std::span<const reference::NamedEntry> list, const char* name, int lanes, size_t tail,
                       bool shares_work) {
    Counts counts;
    counts.tail = tail;
    try_set(list, name, lanes, cases, seed, tried, counts);
    tiers += std::string(tiers.empty() ? "" : ", ") + name + " " + std::to_string(counts.entries);
    all.entries += counts.entries, all.cases += counts.cases, all.left += counts.left;
    all.elements += counts.elements, all.exact += counts.exact, all.failures += counts.failures;
    all.shares += counts.shares;
    if (shares_work && counts.entries > 0 && counts.shares == 0) {
      ++all.failures;
      std::printf("FAILED %s shares nothing among three workers that take all work\n", name);
    }
  };
  each_vector_tier([&](const VectorTier& tier) {
    if (count > 3 && std::strcmp(arguments[3], tier.name) != 0) return;
    if (tier.emulated && tried.contains(tier.list.front().entry)) return;  // kernels of another set, by another name
    if (tier.runs_here) add(tier.list, tier.name, tier.lanes, 0, !tier.emulated);
    else std::printf("%-12s does not run here\n", tier.name);
  });
#ifdef NACRE_XNNPACK
  const Port* const port = xnnpack::port();
  if (port == nullptr) std::printf("%-12s does not run here\n", "xnnpack");
  else if (count <= 3 || std::strcmp(arguments[3], port->name) == 0)
    add(xnnpack::list(), port->name, 16, port->tail_bytes, false);
#endif
  if (all.failures > 0) {
    std::printf("CLAIM kernels_correct NOT SHOWN: %d failures\n", all.failures);
    return 1;
  }
  std::printf(
      "CLAIM kernels_correct shown: %s entries; %d cases, each at 2 places, with and without constants, with 1 and 3 "
      "workers (%lld shares of others), between guard pages; %lld elements (%lld to the bit), seed %llu\n",
      tiers.c_str(), all.cases, static_cast<long long>(all.shares), static_cast<long long>(all.elements),
      static_cast<long long>(all.exact), static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace nacre::test
