// libFuzzer: any bytes give a graph for which check() holds, or one Error. Anything else that is thrown is a finding.
//
//   fuzz_tflite -max_len=100000 corpus/          seeds: small .tflite files
#include <cstdint>
#include <span>

#include "tools/base/error.h"
#include "tools/importers/importer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nacre::tools;
  try {
    // The last byte chooses the batch, so that both ways through the shapes are taken.
    const int batch = size > 0 && data[size - 1] % 4 == 1 ? 3 : 0;
    check(import_tflite(std::span(data, size), "fuzz", {.batch = batch}));
  } catch (const Error& error) {
    if (error.code == kFailed) __builtin_trap();  // an invariant of the graph: the importer's own mistake
  }
  return 0;
}
