// Runs single steps for a script that compares them: reads a line, prints a line, with numbers as text.
//
//   run ENTRY WORDS w.. INPUTS {0 | TYPE RANK d.. v..}..    prints {RANK d.. v..} per output, or: refused CODE
//   table NAME scale_x zero_x scale_y zero_y alpha          prints the 256 codes; float_sigmoid and float_tanh are
//                                                           function_table's
//   multiplier REAL                                         prints multiplier shift
//
// WORDS, INPUTS and RANK are counts. TYPE is an ElementType. Reals are C99 hexadecimal or decimal.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>

#include "engine/kernels/reference.h"
#include "tests/one_step.h"
#include "tools/passes/policy/lookup_tables.h"
#include "tools/passes/policy/quantize_multiplier.h"

namespace nacre::test {
namespace {

double number(std::istream& in) {
  std::string text;
  in >> text;
  return std::strtod(text.c_str(), nullptr);
}

Array read_array(std::istream& in) {
  const int type = int(number(in));
  if (type == 0) return {};
  std::vector<int32_t> dims(size_t(number(in)));
  for (int32_t& dim : dims) dim = int32_t(number(in));
  Array array = make_array(ElementType(type), dims);
  for (int64_t i = 0; i < array.elements(); ++i) array.set(i, number(in));
  return array;
}

void run(std::istream& in) {
  std::string name;
  in >> name;
  std::vector<uint32_t> words(size_t(number(in)));
  for (uint32_t& word : words) word = uint32_t(int64_t(number(in)));
  std::vector<Array> inputs(size_t(number(in)));
  for (Array& input : inputs) input = read_array(in);
  for (const reference::NamedEntry& named : reference::list()) {
    if (name != named.name) continue;
    const Execution result = execute(*named.entry, words, inputs);
    if (result.code != Code::kOk) std::printf("refused %d", int(result.code));
    for (const Array& output : result.outputs) {
      std::printf("%zu ", output.dims.size());
      for (const int32_t dim : output.dims) std::printf("%d ", int(dim));
      for (int64_t i = 0; i < output.elements(); ++i) std::printf("%.9g ", output.real(i));
    }
    std::printf("\n");
    return;
  }
  std::printf("no entry %s\n", name.c_str());
}

void table(std::istream& in) {
  std::string name;
  in >> name;
  tools::Quantizer x, y;
  for (tools::Quantizer* q : {&x, &y}) {
    q->scale = {float(number(in))};
    q->zero = {int64_t(number(in))};
  }
  tools::Node node;
  node.op = Op::kLeakyRelu;
  node.words = {std::bit_cast<uint32_t>(float(number(in)))};
  const std::map<std::string, tools::LookupTable> tables = {
      {"sigmoid", tools::sigmoid(node, x, y)},
      {"tanh", tools::tanh(node, x, y)},
      {"hard_swish", tools::hard_swish(node, x, y)},
      {"leaky_relu", tools::leaky_relu(node, x, y)},
      {"float_sigmoid", tools::function_table([](float v) { return 1 / (1 + std::exp(-v)); }, x, y)},
      {"float_tanh", tools::function_table([](float v) { return std::tanh(v); }, x, y)}};
  for (const int8_t code : tables.at(name)) std::printf("%d ", int(code));
  std::printf("\n");
}

}  // namespace
}  // namespace nacre::test

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string command;
    in >> command;
    if (command == "run") nacre::test::run(in);
    else if (command == "table") nacre::test::table(in);
    else {
      const nacre::FixedPoint pair = nacre::tools::quantize_multiplier(nacre::test::number(in));
      std::printf("%d %d\n", int(pair.multiplier), int(pair.shift));
    }
    std::fflush(stdout);
  }
}
