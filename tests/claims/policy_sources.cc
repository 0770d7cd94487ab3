// Claim: Nacre has every capability of the policy languages' sources, or refuses it with the reason, or the row says
// what Nacre does otherwise.
//
// Each capability has one row: its place in the source, the source's words or code, and a test. Tests check effects:
// types, codes and scales in the file that a conversion writes, numbers of a run, the state of a training after some
// steps. The sources are Keras 3.15.1 (keras/src), tensorflow 2.4 (python/keras/mixed_precision/experimental,
// python/training/experimental) and its grappler (auto_mixed_precision.cc), axon 0.4 (lib/axon), jmp (jmp/_src),
// fastai 1.0 (fastai/callbacks/fp16.py) and 2 (fastai/callback/fp16.py).
//
//   policy_sources [TEXT]     only rows whose source, place or words hold this; the claim is not shown then
#include "tests/claims/policy_sources.h"

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/claims/claims.h"
#include "tests/sanitized.h"

namespace nacre::test {
namespace {

using namespace policy_sources;

struct Tally {
  int rows = 0, refused = 0, otherwise = 0, checks = 0, failed = 0;
};

void run(const Source& source, const Capability& row, Tally& tally) {
  Checks checks;
  try {
    row.test(checks);
  } catch (const std::exception& error) {
    checks.that(false, error.what());
  }
  if (checks.made == 0) checks.that(false, "the test has no check");
  ++tally.rows;
  tally.refused += row.kind == Kind::kRefused ? 1 : 0;
  tally.otherwise += row.kind == Kind::kDeparts ? 1 : 0;
  tally.checks += checks.made;
  tally.failed += checks.failed > 0 ? 1 : 0;
  const char* mark = checks.failed > 0            ? "FAILED"
                     : row.kind == Kind::kRefused ? "refused"
                     : row.kind == Kind::kDeparts ? "otherwise"
                                                  : "had";
  std::printf("%-9s %s, %s: \"%s\"\n", mark, source.name, row.where, row.words);
  if (*row.otherwise != '\0') std::printf("          here: %s\n", row.otherwise);
  for (const std::string& failure : checks.failures) std::printf("          FAILED: %s\n", failure.c_str());
}

int claim(const std::string& part) {
  const Source sources[] = {keras_policies(),
                            keras_map(),
                            keras_quantized(),
                            keras_fits(),
                            keras_float8(),
                            tensorflow_policies(),
                            tensorflow_rewrite(),
                            axon(),
                            jmp(),
                            fastai()};
  Tally tally;
  int used = 0;
  for (const Source& source : sources) {
    const int before = tally.rows;
    for (const Capability& row : source.capabilities)
      if ((std::string(source.name) + " " + row.where + " " + row.words).find(part) != std::string::npos)
        run(source, row, tally);
    used += tally.rows > before ? 1 : 0;
  }
  if (tally.failed > 0 || !part.empty()) {
    std::printf("CLAIM policy_sources NOT SHOWN: %d of %d tests failed%s\n", tally.failed, tally.rows,
                part.empty() ? "" : ", of a part of the rows");
    return 1;
  }
  std::printf(
      "CLAIM policy_sources shown: %d capabilities of %d sources, %d tests, %d refused with a reason, %d done "
      "otherwise "
      "as their rows say; %d checks, 0 failed\n",
      tally.rows, used, tally.rows, tally.refused, tally.otherwise, tally.checks);
  return 0;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(policy_sources) {
  if (nacre::test::sanitized()) {
    std::puts("many conversions and trainings: the plain build runs them");
    return 77;
  }
  try {
    return nacre::test::claim(count > 1 ? arguments[1] : "");
  } catch (const std::exception& error) {
    std::printf("CLAIM policy_sources NOT SHOWN: %s\n", error.what());
    return 1;
  }
}
