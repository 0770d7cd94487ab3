// libFuzzer target: for any bytes the ONNX importer gives a graph that passes check(), also after simplify, or one
// tools::Error. The summary of the file, too, is made or refused.
#include <cstdint>
#include <string>

#include "tools/base/error.h"
#include "tools/graph/graph.h"
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
    if (error.code == kFailed || std::string(error.what()).empty()) __builtin_trap();  // a broken graph, not bad input
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The last byte chooses batch, layout and use, so that all ways through the shapes are taken.
  const int choice = size > 0 ? data[size - 1] % 4 : 0;
  expect_one_error([&] {
    Graph graph = import_onnx({data, size}, "fuzz.onnx",
                              {.batch = choice == 1 ? 3 : 0, .io_nhwc = choice == 2, .train = choice == 3});
    check(graph);
    simplify(graph, choice == 3 ? kSimplifyToTrain : SimplifyOptions());
    check(graph);
  });
  expect_one_error([&] { summarize_onnx({data, size}, "fuzz.onnx"); });
  return 0;
}
