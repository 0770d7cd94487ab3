// Compiles a network as `nacre convert` does, and runs it step by step with its streams kept.
#pragma once

#include <cstring>
#include <vector>

#include "tests/graph/run_graph.h"
#include "tools/compile/compile.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {

class Streamed {
 public:
  explicit Streamed(Graph graph, const CompileOptions& options = {})
      : model_(made(std::move(graph), options), "streamed", ""), bound_(model_, 0) {}

  std::vector<uint8_t> run(const std::vector<uint8_t>& inputs) { return bound_.run(inputs); }
  std::vector<float> run(const std::vector<float>& inputs) {
    const std::vector<uint8_t> bytes = bound_.run(bytes_of(inputs));
    std::vector<float> y(bytes.size() / sizeof(float));
    std::memcpy(y.data(), bytes.data(), y.size() * sizeof(float));
    return y;
  }
  uint64_t stream_bytes() const { return bound_.sizes().bytes[kStream]; }

 private:
  static std::vector<uint8_t> made(Graph graph, const CompileOptions& options) {
    simplify(graph);
    return compile(std::move(graph), options).bytes;
  }

  LoadedModel model_;
  BoundProgram bound_;
};

}  // namespace nacre::tools
