#include "tests/onnx/node_case.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include <onnx/onnx_pb.h>

#include "tests/onnx/baked_operands.h"
#include "tools/base/error.h"
#include "tools/base/names.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(kIo, path, "cannot be opened");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

::onnx::TensorProto read_proto(const std::string& path) {
  ::onnx::TensorProto tensor;
  if (!tensor.ParseFromString(read_file(path))) throw Error(kUnsupported, path, "is no tensor");
  return tensor;
}

// Returns the operator ("test_x") of a function body ("test_x_expanded"). It has the same inputs, which are baked
// alike.
::onnx::GraphProto operator_of(const std::string& root, const std::string& name, const ::onnx::GraphProto& graph) {
  const size_t suffix = name.rfind("_expanded");
  const std::string path = root + "/" + name.substr(0, suffix) + "/model.onnx";
  ::onnx::ModelProto model;
  if (suffix == std::string::npos || !std::filesystem::exists(path) || !model.ParseFromString(read_file(path)))
    return graph;
  return model.graph();
}

// Reads a test's data. Inputs that are baked in its graph or in `like` become initializers.
void read_data(const std::string& directory, const ::onnx::GraphProto& like, ::onnx::ModelProto& model,
               NodeCase& test) {
  ::onnx::GraphProto& graph = *model.mutable_graph();
  const ::onnx::GraphProto given = graph;
  std::set<std::string> stored;
  for (const auto& tensor : given.initializer()) stored.insert(tensor.name());
  int index = 0;
  for (const auto& input : given.input()) {
    if (stored.contains(input.name())) continue;
    if (!input.type().has_tensor_type()) throw Error(kUnsupported, input.name(), "is no tensor");
    ::onnx::TensorProto tensor = read_proto(directory + "/input_" + std::to_string(index++) + ".pb");
    if (is_baked(given, input.name()) || is_baked(like, input.name())) {
      tensor.set_name(input.name());
      *graph.add_initializer() = tensor;
    } else {
      test.inputs.push_back(onnx_import::read_tensor(tensor, ""));
    }
  }
  for (int i = 0; i < given.output_size(); ++i) {
    if (!given.output(i).type().has_tensor_type()) throw Error(kUnsupported, given.output(i).name(), "is no tensor");
    test.outputs.push_back(
        onnx_import::read_tensor(read_proto(directory + "/output_" + std::to_string(i) + ".pb"), ""));
  }
  test.folded = test.inputs.empty();
}

// A 16-bit result may differ from the expected one by about a step of the type, in float16 by two.
double relative_tolerance(ElementType type) {
  if (type == ElementType::kBfloat16) return 0x1p-7;
  return type == ElementType::kFloat16 ? 0x1p-9 : 1e-3;
}

bool close(float actual, float expected, double tolerance) {
  if (std::isnan(expected) || std::isinf(expected))
    return std::isnan(expected) ? std::isnan(actual) : actual == expected;
  return std::fabs(double(actual) - double(expected)) <= 1e-7 + tolerance * std::fabs(double(expected));
}

std::string shape_of(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

}  // namespace

std::vector<std::string> list_cases(const std::string& root, const std::vector<std::string>& suites) {
  std::vector<std::string> names;
  for (const std::string& suite : suites)
    for (const auto& entry : std::filesystem::directory_iterator(root + "/" + suite))
      if (std::filesystem::exists(entry.path() / "model.onnx"))
        names.push_back(suite + "/" + entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

NodeCase load_case(const std::string& root, const std::string& name) {
  NodeCase test;
  test.name = name;
  ::onnx::ModelProto model;
  if (!model.ParseFromString(read_file(root + "/" + name + "/model.onnx")))
    throw Error(kBadInput, name, "cannot be parsed");
  std::set<std::string> ops;
  for (const auto& node : model.graph().node())
    ops.insert((node.domain().empty() ? "" : node.domain() + "::") + node.op_type());
  test.ops.assign(ops.begin(), ops.end());
  try {
    read_data(root + "/" + name + "/test_data_set_0", operator_of(root, name, model.graph()), model, test);
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    test.unreadable = error.what();
  }
  const std::string bytes = model.SerializeAsString();
  test.model.assign(bytes.begin(), bytes.end());
  return test;
}

std::string difference(const Value& expected, ElementType type, const std::vector<int64_t>& dims,
                       const std::vector<uint8_t>& bytes) {
  if (type != expected.type) return std::string("type ") + name_of(type) + ", expected " + name_of(expected.type);
  if (dims != expected.dims) return "shape " + shape_of(dims) + ", expected " + shape_of(expected.dims);
  if (!is_float_type(type)) return bytes == *expected.data ? "" : "integers differ";
  Value actual = expected;
  actual.data = std::make_shared<const std::vector<uint8_t>>(bytes);
  const std::vector<float> a = reals(actual), e = reals(expected);
  for (size_t i = 0; i < e.size(); ++i)
    if (!close(a[i], e[i], relative_tolerance(type)))
      return "element " + std::to_string(i) + ": " + std::to_string(a[i]) + ", expected " + std::to_string(e[i]);
  return "";
}

}  // namespace nacre::tools
