// One of ONNX's backend tests: a model, inputs and expected outputs, all as protocol buffers (onnx/backend/test/data).
//
// The node tests give weights, shapes and axes as inputs. A network that runs without an interpreter has them in its
// file, so load_case() bakes them: inputs that are read only as such operands become initializers. The other inputs
// are data.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct NodeCase {
  std::string name;              // "node/test_relu"
  std::vector<uint8_t> model;    // serialized, after baking
  std::vector<std::string> ops;  // sorted, without repetition; "domain::op" for other domains
  std::vector<Value> inputs;     // that are left, in the order of the model's
  std::vector<Value> outputs;    // expected
  std::string unreadable;        // why there are no inputs or outputs: a type that no Value has
  bool folded = false;           // nothing is left to compute at run time
};

// Returns the sorted test directories below `root`/<suite>, as "node/test_relu".
std::vector<std::string> list_cases(const std::string& root, const std::vector<std::string>& suites);

NodeCase load_case(const std::string& root, const std::string& name);

// Returns the difference, or "": element type, shape, or the first element outside rtol 1e-3 and atol 1e-7, as in the
// tests themselves. For bfloat16 rtol is 2^-7, for float16 2^-9; integers must be equal.
std::string difference(const Value& expected, ElementType type, const std::vector<int64_t>& dims,
                       const std::vector<uint8_t>& bytes);

}  // namespace nacre::tools
