#include "tools/model/static_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/model/static_builds.h"
#include "tools/model/static_text.h"

namespace nacre::tools {
namespace {

std::string bytes_text(std::span<const std::byte> bytes) {
  return lines(bytes, "    ", [](std::byte b) { return fmt::format("{}", unsigned(b)); });
}
std::string bytes_text(const std::vector<uint8_t>& bytes) { return bytes_text(std::as_bytes(std::span(bytes))); }

std::string input_or_output(const StaticSource& s, const StaticTables::Port& port, const std::string& name) {
  const TensorRecord& r = s.model.model().tensors()[port.tensor];
  std::string text =
      fmt::format("{} {}, {} bytes", name_of(r.element), dims_text(std::span(r.dims, r.rank)), port.bytes);
  if (const auto scales = s.model.scales(port.tensor); scales && scales->scale.size() == 1)
    text += ", " + quantizer_text(scales->scale[0], scales->zero[0]);
  return name + ": " + text;
}

// Returns comment lines that describe inputs, or outputs: "//   input 0 pixels: float32 [1, 64], 256 bytes".
std::string ports_of(const StaticSource& s, const char* what, const std::vector<StaticTables::Port>& ports,
                     const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < ports.size(); ++i)
    text += fmt::format("//   {} {} {}\n", what, i, input_or_output(s, ports[i], file_name_of(names[i])));
  return text;
}

// Returns comment lines that describe the inputs of a micro-batch.
std::string training_inputs(const StaticSource& s) {
  const auto found = s.tables.programs.find(Entry::kGradients);
  const bool immediate = found == s.tables.programs.end();
  const StaticTables::BoundProgram& feeding = immediate ? s.tables.programs.at(Entry::kUpdate) : found->second;
  std::vector<StaticTables::Port> ports = feeding.inputs;
  if (immediate) ports.pop_back();  // the learning rate
  return ports_of(s, "of a micro-batch, input", ports, s.model.program_names(feeding.index).inputs);
}

// Returns macros for code that fills inputs or reads outputs: KWS_INPUT_0_TYPE, _ELEMENTS, and for codes with one
// scale _SCALE and _ZERO.
std::string numbers_of(const StaticSource& s, const char* what, const std::vector<StaticTables::Port>& ports) {
  std::string name = s.name, text;
  for (char& c : name) c = char(std::toupper(static_cast<unsigned char>(c)));
  for (size_t i = 0; i < ports.size(); ++i) {
    const TensorRecord& r = s.model.model().tensors()[ports[i].tensor];
    const auto define = [&](const char* number, const std::string& value) {
      text += fmt::format("#define {}_{}_{}_{} {}\n", name, what, i, number, value);
    };
    define("TYPE", fmt::format("{} /* nacre::ElementType: {} */", int(r.element), name_of(r.element)));
    define("ELEMENTS", fmt::format("{}", (Shape{r.rank, r.dims, 0}.elements())));
    const auto scales = s.model.scales(ports[i].tensor);
    if (!scales || scales->scale.size() != 1) continue;
    define("SCALE", fmt::format("{:#.9g}f", scales->scale[0]));
    define("ZERO", fmt::format("({})", scales->zero[0]));
  }
  return text;
}

std::string header(const StaticSource& s) {
  const StaticTables::BoundProgram& infer = s.tables.infer();
  const ProgramNames names = s.model.program_names(infer.index);
  const bool trains = s.tables.training.has_value();
  std::string text = top(s, trains ? "The programs" : "The program") + "//\n" +
                     ports_of(s, "input", infer.inputs, names.inputs) +
                     ports_of(s, "output", infer.outputs, names.outputs) + (trains ? training_inputs(s) : "");
  text += fmt::format(R"(#ifndef NACRE_STATIC_{0}_H
#define NACRE_STATIC_{0}_H

#ifdef __cplusplus
#include <nacre/{1}.h>
extern "C" {{
#else
#include <nacre/nacre_c.h>
#endif

extern const struct nacre_static_program {0}_program;
)",
                      s.name, trains ? "static_trainer" : "static_program");
  if (trains) text += fmt::format("extern const struct nacre_static_training {}_training;\n", s.name);
  text += "\n" + numbers_of(s, "INPUT", infer.inputs) + numbers_of(s, "OUTPUT", infer.outputs);
  text += fmt::format(
      R"(
// Whether this image is what the PC checked: its constants, and the outputs of {} golden pairs. Prints the hash of the
// model file and every difference; returns how many there are.{}
)",
      s.golden.size(),
      trains ? " It leaves the state as training begins: call it before\n// a trainer starts or loads." : "");
  return text + fmt::format(R"(int {}_self_test(void (*print)(const char* text));

#ifdef __cplusplus
}}
#endif

#endif
)",
                            s.name);
}

std::string weights(const StaticSource& s) {
  const std::span<const std::byte> bytes = std::as_const(s.tables).weights.bytes();
  std::string text = top(s, "The weights");
  text += "#include <cstdint>\n\n";
  text += fmt::format("extern \"C\" const uint8_t {}_weights[{}];\n\n", s.name, bytes.size());
  text += "#ifdef NACRE_WEIGHTS_SECTION\n[[gnu::section(NACRE_WEIGHTS_SECTION)]]\n#endif\n";
  text +=
      fmt::format("alignas({}) constinit const uint8_t {}_weights[{}] = {{\n", kSegmentAlignment, s.name, bytes.size());
  return text + bytes_text(bytes) + "};\n";
}

// Returns the name of the comparison of outputs: close_floats, which allows the difference of two libms, if all outputs
// are float32; else same_bytes.
const char* comparison(const StaticSource& s) {
  const bool floats = std::ranges::all_of(s.tables.infer().outputs, [&](const StaticTables::Port& port) {
    return s.model.model().tensors()[port.tensor].element == ElementType::kFloat32;
  });
  return floats ? "close_floats" : "same_bytes";
}

std::string golden_array(const StaticSource& s, const char* name, std::vector<uint8_t> GoldenPair::*bytes) {
  std::string text = "#ifdef NACRE_GOLDEN_SECTION\n[[gnu::section(NACRE_GOLDEN_SECTION)]]\n#endif\n";
  size_t count = 0;
  for (const GoldenPair& pair : s.golden) count += (pair.*bytes).size();
  text += fmt::format("constexpr uint8_t {}[{}] = {{\n", name, count);
  for (const GoldenPair& pair : s.golden) text += bytes_text(pair.*bytes);
  return text + "};\n";
}

std::string test(const StaticSource& s) {
  return top(s, "The self-test") +
         fmt::format("#include <nacre/self_test.h>\n\n#include \"{}.h\"\n\nnamespace {{\n\n", s.name) +
         golden_array(s, "kGoldenInputs", &GoldenPair::inputs) +
         golden_array(s, "kGoldenOutputs", &GoldenPair::outputs) +
         fmt::format(R"(
}}  // namespace

int {0}_self_test(void (*print)(const char* text)) {{
  const nacre::GoldenPairs golden = {{kGoldenInputs, kGoldenOutputs, {1}, nacre::{2}}};
  return nacre::self_test({3}, golden, print);
}}
)",
                     s.name, s.golden.size(), comparison(s), s.name + (s.tables.training ? "_training" : "_program"));
}

std::string main_program(const StaticSource& s) {
  return top(s, "A program that runs the self-test") + fmt::format(R"(#include <stdio.h>

#include "{0}.h"

static void print_text(const char* text) {{ fputs(text, stdout); }}

int main(void) {{
  const int failed = {0}_self_test(print_text);
  printf("%d failed\n", failed);
  return failed != 0;
}}
)",
                                                                   s.name);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> static_source(const StaticSource& source) {
  std::vector<std::pair<std::string, std::string>> files = {{source.name + ".h", header(source)},
                                                            {source.name + ".cc", static_tables_source(source)},
                                                            {source.name + "_weights.cc", weights(source)},
                                                            {source.name + "_test.cc", test(source)},
                                                            {source.name + "_main.c", main_program(source)}};
  std::ranges::move(static_builds(source.name, top(source, "The build", "#")), std::back_inserter(files));
  return files;
}

}  // namespace nacre::tools
