// Claim: any bytes given to open, measure and bind are a model that runs, or give one refusal. The first part has one
// file per fact. The second part changes whole files: the models of tests/model/cases*.cc, and the digits sample, AD
// and KWS as the converter makes them.
//
//   hostile_bytes [--facts] [--tries N] [--seed N] [--long] [MODEL ...]
//
// --facts skips the second part. --long (or NACRE_LONG=1) tries all changes of every file; else the networks get a
// seeded sample, --tries of each. MODEL names files to use instead.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/model/execute.h"
#include "tests/model/facts.h"
#include "tests/model/networks.h"
#include "tests/model/sweep.h"
#include "tests/sanitized.h"

namespace nacre::test {
namespace {

struct Seen {
  Status status;
  Stage stage;
};

// Returns the first refusal of open, of check_weights and, for every program, of measure and bind.
Seen judge(std::span<const std::byte> bytes, const Limits& limits, std::span<const KernelSet* const> kernels) {
  Model model;
  if (const Status s = model.open(bytes, limits); !s.ok()) return {s, Stage::kOpen};
  if (const Status s = model.check_weights(); !s.ok()) return {s, Stage::kWeights};
  for (uint32_t i = 0; i < model.program_count(); ++i) {
    Sizes sizes;
    if (const Status s = Program::measure(model, i, kernels, &sizes); !s.ok()) return {s, Stage::kMeasure};
    Blocks blocks(sizes);
    Program program;
    if (const Status s = program.bind(model, i, kernels, blocks.memory); !s.ok()) return {s, Stage::kBind};
  }
  return {{}, Stage::kBind};
}

// Returns whether the file is refused as the row says, and the file that it was made from is not. Prints the result.
bool check(const Fact& fact) {
  const auto kernels = fact.kernels.empty() ? reference_kernels() : fact.kernels;
  Draft draft = fact.base();
  const Seen base = judge(pack(draft).bytes(), {}, reference_kernels());
  if (fact.draft) fact.draft(draft);
  Buffer file = pack(draft);
  if (fact.file) fact.file(file);
  const std::span<const std::byte> all = file.bytes();
  const Seen seen = judge(fact.view ? fact.view(all) : all, fact.limits, kernels);
  const Status& s = seen.status;
  const Refusal& e = fact.expected;
  const bool right =
      base.status.ok() && s.code == e.code && s.table == e.table && s.index == e.index && seen.stage == e.stage;
  std::printf("%s %2d  %-58s %s: code %d, %s %u: %s\n", right ? "ok  " : "FAIL", fact.number, fact.text.c_str(),
              kStageNames[size_t(seen.stage)], int(s.code), table_name(s.table), s.index, sentence(s.code));
  if (!right)
    std::printf("         expected %s: code %d, %s %u: %s%s\n", kStageNames[size_t(e.stage)], int(e.code),
                table_name(e.table), e.index, sentence(e.code),
                base.status.ok() ? "" : "; the file is refused before its mutation");
  return right;
}

// Codes that several facts of the list share, because the list names one fact from several sides.
constexpr struct {
  Code code;
  const char* fact;
} kShared[] = {
    {Code::kHeaderSize, "3 10: where the FlatBuffer lies, and how long it is"},
    {Code::kCount, "12 14: more records than allowed"},
    {Code::kSegmentBounds, "26 29: a segment is not where one can be"},
    {Code::kBytes, "24 26 27: a tensor's bytes are not those of its dims"},
    {Code::kBounds, "26 29 38: offset + bytes lies outside the region"},
    {Code::kOffsetAlignment, "28 38: an offset is misaligned"},
    {Code::kOrder, "29 38: records are out of order"},
    {Code::kOverlap, "29 38: two records share bytes"},
    {Code::kAliasTarget, "19 29: an alias of what it must not name"},
    {Code::kWrittenTwice, "39 40: a byte is written twice"},
    {Code::kReadBeforeWrite, "39 40: a byte is read that no step has written"},
    {Code::kInputOutput, "19 40: what is bound is no arena tensor of the program"},
    {Code::kPolicy, "18 37: a field of a policy is no legal value"},
    {Code::kGolden, "19 26 27: a golden pair does not fit its program"},
    {Code::kAttribute, "18 22 36 37 42 43: an attribute word is outside its range"},
};

bool may_share(Code code) {
  for (const auto& row : kShared)
    if (row.code == code) return true;
  return false;
}

bool facts() {
  Facts all;
  file_facts(all);
  tensor_facts(all);
  program_facts(all);
  kernel_facts(all);
  form_facts(all);
  training_facts(all);
  size_t right = 0, unrelated = 0;
  std::set<int> numbers;
  std::map<std::pair<Code, Table>, std::set<int>> by_code;
  for (const Fact& fact : all.rows) {
    right += check(fact);
    if (fact.number == 0) continue;
    numbers.insert(fact.number);
    by_code[{fact.expected.code, fact.expected.table}].insert(fact.number);
  }
  for (const Absent& absent : absent_facts()) std::printf("none %s: %s\n", absent.numbers, absent.why);
  for (const auto& row : kShared) std::printf("one code %d for %s\n", int(row.code), row.fact);
  for (const auto& [code, set] : by_code) {
    if (set.size() < 2 || may_share(code.first)) continue;
    ++unrelated;
    std::printf("FAIL code %d, %s, for unrelated numbers:", int(code.first), table_name(code.second));
    for (const int n : set) std::printf(" %d", n);
    std::printf("\n");
  }
  const bool shown = right == all.rows.size() && right >= 100 && unrelated == 0;
  std::printf("CLAIM hostile_bytes %s: %zu of %zu facts, of %zu numbers, refused with their code, table and index\n",
              shown ? "shown" : "NOT shown", right, all.rows.size(), numbers.size());
  return shown;
}

// ---- The sweep ----

struct Options {
  bool facts_only = false, whole = false;
  uint64_t tries = 0;  // tries of each network; 0: its row's number
  uint64_t seed = 1;
  std::vector<std::string> files;
};

bool parse(int count, char** arguments, Options* o) {
  const char* whole = std::getenv("NACRE_LONG");
  o->whole = whole != nullptr && std::string(whole) == "1";
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const bool value = i + 1 < count;
    if (argument == "--facts") o->facts_only = true;
    else if (argument == "--long") o->whole = true;
    else if (argument == "--tries" && value) o->tries = std::strtoull(arguments[++i], nullptr, 10);
    else if (argument == "--seed" && value) o->seed = std::strtoull(arguments[++i], nullptr, 10);
    else if (argument[0] == '-') return false;
    else o->files.push_back(argument);
  }
  return true;
}

// How many mutants of a network make a sample: with the reference kernels they take about 20 s each network. Under
// sanitizers, which take ten times as long, one in 20 is tried, and a sample of the small files; the plain build
// tries these all.
constexpr uint64_t kSanitizedShare = 20, kSanitizedTries = 1000;
constexpr struct {
  const char* network;
  uint64_t tries;
} kSamples[] = {{"digits", 80'000}, {"AD", 24'000}, {"KWS", 8'000}};

struct File {
  std::string name;
  Buffer bytes;
  uint64_t tries = 20'000;
};
using Files = std::vector<File>;

// Finds the files to change, and counts the networks that are missing.
bool gather(const Options& o, Files* files, int* missing) {
  for (const std::string& path : o.files) {
    Buffer file;
    if (!read_file(path, &file)) return std::printf("FAIL %s: cannot be read\n", path.c_str()), false;
    files->push_back({.name = path.substr(path.rfind('/') + 1), .bytes = std::move(file)});
  }
  if (!o.files.empty()) return true;
  for (const ModelCase& c : cases())
    files->push_back({.name = c.name, .bytes = pack(c.make()), .tries = sanitized() ? kSanitizedTries : File().tries});
  for (const auto& sample : kSamples)
    for (const Network& network : kNetworks) {
      if (std::string(network.name) != sample.network) continue;
      Buffer file;
      std::string why;
      if (convert(network, &file, &why))
        files->push_back({.name = sample.network,
                          .bytes = std::move(file),
                          .tries = sanitized() ? sample.tries / kSanitizedShare : sample.tries});
      else ++*missing, std::printf("%s: %s\n", sample.network, why.c_str());
    }
  return true;
}

void print(const char* start, const Swept& s) {
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  const auto count = [&](Outcome outcome) { return number(s.outcomes[size_t(outcome)]); };
  std::printf(
      "%s: tried %llu of %llu, refused by CRC or length %llu, by meaning %llu, over the caps %llu, accepted and run "
      "%llu",
      start, number(s.tried), number(s.of), count(Outcome::kCrc), count(Outcome::kMeaning), count(Outcome::kCaps),
      count(Outcome::kRun));
}

int sweep_files(const Options& o) {
  constexpr size_t kSmall = 4096;  // smaller files are tried whole: it takes seconds
  Files files;
  int missing = 0;
  if (!gather(o, &files, &missing)) return 1;
  Swept sum;
  bool good = true;
  for (const auto& [name, file, tries] : files) {
    const Exercised untouched = exercise(file.bytes());
    const bool whole = o.whole || (file.size() <= kSmall && !sanitized());
    const Swept swept = sweep(name, file.bytes(), whole ? 0 : o.tries > 0 ? o.tries : tries, o.seed);
    print(name.c_str(), swept);
    std::printf("%s\n", swept.missed == 0 ? "" : "; FAIL: flips in weights that no CRC saw");
    std::fflush(stdout);
    good = good && untouched.outcome == Outcome::kRun && untouched.weights.ok() && swept.missed == 0;
    sum += swept;
  }
  std::printf("CLAIM hostile_bytes %s: %d networks missing; seed %llu",
              !good         ? "NOT shown"
              : missing > 0 ? "partly shown"
                            : "shown",
              missing, static_cast<unsigned long long>(o.seed));
  print("", sum);
  std::printf("; 0 crashes, 0 hangs\n");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(hostile_bytes) {
  nacre::test::Options options;
  if (!nacre::test::parse(count, arguments, &options)) {
    std::printf("hostile_bytes [--facts] [--tries N] [--seed N] [--long] [MODEL ...]\n");
    return 2;
  }
  if (!nacre::test::facts()) return 1;
  return options.facts_only ? 0 : nacre::test::sweep_files(options);
}
