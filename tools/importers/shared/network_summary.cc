#include "tools/importers/shared/network_summary.h"

#include <algorithm>

#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

constexpr uint64_t kMost = uint64_t{1} << 62;

}  // namespace

void NetworkSummary::count(uint64_t elements) { parameters = std::min(parameters + std::min(elements, kMost), kMost); }

uint64_t declared_elements(std::span<const int64_t> dims) {
  uint64_t elements = 1;
  for (const int64_t dim : dims) {
    if (dim <= 0) return 0;
    elements = elements > kMost / uint64_t(dim) ? kMost : elements * uint64_t(dim);
  }
  return elements;
}

NetworkSummary summarize_network(std::span<const uint8_t> bytes, const std::string& path) {
  switch (sniff(bytes)) {
    case Format::kTflite: return summarize_tflite(bytes, path);
    case Format::kOnnx: return summarize_onnx(bytes, path);
    case Format::kHdf5:
    case Format::kZip:
    case Format::kJson: return summarize_keras(bytes, path);
    case Format::kLfsPointer:
    case Format::kModel:
    case Format::kUnknown: break;
  }
  refuse_format(bytes, path);
}

}  // namespace nacre::tools
