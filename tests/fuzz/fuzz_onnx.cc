// libFuzzer target: any bytes given to the ONNX importer give a graph for which check() holds, or one tools::Error.
#include <cstdint>
#include <string>

#include "tools/base/error.h"
#include "tools/graph/graph.h"
#include "tools/importers/importer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nacre::tools;
  try {
    // The last byte chooses batch, layout and use, so that all ways through the shapes are taken.
    const int choice = size > 0 ? data[size - 1] % 4 : 0;
    check(import_onnx({data, size}, "fuzz.onnx",
                      {.batch = choice == 1 ? 3 : 0, .io_nhwc = choice == 2, .train = choice == 3}));
  } catch (const Error& error) {
    if (error.code == kFailed || std::string(error.what()).empty()) __builtin_trap();  // a broken graph, not bad input
  }
  return 0;
}
