// libFuzzer target: any bytes give a graph that passes check(), also after simplify, or one Error. The summary of the
// file, too, is made or refused. Any other exception is a finding.
//
//   fuzz_tflite -max_len=100000 corpus/          seeds: small .tflite files
#include <cstdint>
#include <span>

#include "tools/base/error.h"
#include "tools/importers/importer.h"
#include "tools/importers/shared/network_summary.h"
#include "tools/passes/passes.h"

namespace {

using namespace nacre::tools;

template <class Work>
void expect_one_error(Work work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code == kFailed) __builtin_trap();  // an invariant of the graph: the importer's own mistake
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The last byte chooses the batch, so that both ways through the shapes are taken.
  const int batch = size > 0 && data[size - 1] % 4 == 1 ? 3 : 0;
  expect_one_error([&] {
    Graph graph = import_tflite(std::span(data, size), "fuzz", {.batch = batch});
    check(graph);
    simplify(graph);
    check(graph);
  });
  expect_one_error([&] { summarize_tflite(std::span(data, size), "fuzz"); });
  return 0;
}
