#include "tools/model/static_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/version.h"
#include "tools/model/static_builds.h"

namespace nacre::tools {
namespace {

// Items on lines of at most 120 columns, each line behind `indent`.
template <class Items, class F>
std::string lines(const Items& items, const std::string& indent, const F& text_of) {
  std::string text, line = indent;
  for (const auto& item : items) {
    const std::string next = text_of(item) + ",";
    if (line.size() > indent.size() && line.size() + next.size() + 1 > 120) {
      text += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? " " : "") + next;
  }
  return text + line + "\n";
}

std::string bytes_text(std::span<const std::byte> bytes) {
  return lines(bytes, "    ", [](std::byte b) { return fmt::format("{}", unsigned(b)); });
}
std::string bytes_text(const std::vector<uint8_t>& bytes) { return bytes_text(std::as_bytes(std::span(bytes))); }

// Of the file that was checked: what self_test prints.
std::string hash_text(const StaticTables& tables) {
  std::string text;
  for (const uint8_t byte : tables.hash) text += fmt::format("{:02x}", byte);
  return text;
}

std::string top(const StaticSource& s, const std::string& what, const char* comment = "//") {
  return fmt::format("{} {} of the model {} for {}: written by `nacre firmware` {}.\n", comment, what,
                     hash_text(s.tables), s.machine.name, kVersion);
}

// "weights", "stream", "arena", "bank_1"
std::string block_symbol(uint32_t block) {
  if (block == StaticTables::kWeightsBlock) return "weights";
  if (block == StaticTables::kStreamBlock) return "stream";
  const uint32_t bank = block - StaticTables::kArenaBlock;
  return bank == 0 ? "arena" : fmt::format("bank_{}", bank);
}

std::string address(const StaticPlace& place) {
  const std::string text = fmt::format("{} + {}", block_symbol(place.block), place.offset);
  return place.block == StaticTables::kWeightsBlock ? "nacre::static_constant(" + text + ")" : text;
}

std::string record_text(const TensorRecord& r) {
  const std::span dims(r.dims, r.rank);
  const std::string list = r.rank == 0 ? "std::span<const int32_t>()" : fmt::format("{{{}}}", fmt::join(dims, ", "));
  return fmt::format("nacre::static_record({}, {}, {}, {}, {}, {})", int(r.element), int(r.region), int(r.layout),
                     r.flags, r.bytes, list);
}

std::string step_text(const StepRecord& r) {
  return fmt::format("nacre::static_step({}, {}, {}, {}, {}{})", int(r.op), int(r.rounding), r.operand_count,
                     r.first_word, r.word_count, r.guard != kNoIndex ? ", true" : "");
}

std::string record_pointer(uint32_t record) {
  return record == kNoIndex ? "nullptr" : fmt::format("&kRecords[{}]", record);
}

// A call with its operands: {{nacre::reference::ready::kDenseI8Double, &kSteps[0], op_0}, {{arena + 0, nullptr}, ..}}
std::string call_text(const StaticTables::BoundStep& call) {
  const std::string operands = lines(call.operands, "      ", [](const StaticTables::Operand& o) {
    return fmt::format("{{{}, {}}}", o.place.block == kNoIndex ? "nullptr" : address(o.place),
                       record_pointer(o.record));
  });
  const std::string op = call.op == kNoIndex ? "nullptr" : fmt::format("nacre::static_constant(&kOp{})", call.op);
  return fmt::format("    {{{{nacre::{}, &kSteps[{}], {}}},\n     {{\n{}     }}}},\n", call.function, call.step, op,
                     operands);
}

// Its operands' records are the compiler's alone.
std::string op_text(const StaticTables::ReadyOp& op, size_t i) {
  return fmt::format("constexpr nacre::Tensor kOperandsOf{}[] = {{\n", i) +
         lines(op.records, "    ", [](uint32_t r) { return fmt::format("{{nullptr, {}}}", record_pointer(r)); }) +
         fmt::format(
             "}};\nconstexpr nacre::{0} kOp{1} = nacre::{0}::from({{kWords + {2}, {3}}}, "
             "{{kOperandsOf{1}, {4}, 0}});\nstatic_assert(sizeof kOp{1} == {5});\n",
             op.type, i, op.first_word, op.word_count, op.records.size(), op.bytes);
}

std::string input_or_output(const StaticSource& s, const StaticTables::Port& port, const std::string& name) {
  const TensorRecord& r = s.model.model().tensors()[port.tensor];
  std::string text =
      fmt::format("{} {}, {} bytes", name_of(r.element), dims_text(std::span(r.dims, r.rank)), port.bytes);
  if (const auto scales = s.model.scales(port.tensor); scales && scales->scale.size() == 1)
    text += ", " + quantizer_text(scales->scale[0], scales->zero[0]);
  return name + ": " + text;
}

std::string header(const StaticSource& s) {
  const ProgramNames names = s.model.program_names(s.program);
  std::string ports;
  for (size_t i = 0; i < s.tables.inputs.size(); ++i)
    ports +=
        fmt::format("//   input {} {}\n", i, input_or_output(s, s.tables.inputs[i], file_name_of(names.inputs[i])));
  for (size_t i = 0; i < s.tables.outputs.size(); ++i)
    ports +=
        fmt::format("//   output {} {}\n", i, input_or_output(s, s.tables.outputs[i], file_name_of(names.outputs[i])));
  return top(s, "The program") + "//\n" + ports +
         fmt::format(R"(#ifndef NACRE_STATIC_{0}_H
#define NACRE_STATIC_{0}_H

#ifdef __cplusplus
#include "engine/run/static_program.h"
extern "C" {{
#else
#include "engine/nacre_c.h"
#endif

extern const struct nacre_static_program {0}_program;

// Whether this image is what the PC checked: its constants, and the outputs of {1} golden pairs. Prints the hash of the
// model file and every difference; returns how many there are.
int {0}_self_test(void (*print)(const char* text));

#ifdef __cplusplus
}}
#endif

#endif
)",
                     s.name, s.golden.size());
}

std::string assertions(const StaticSource& s) {
  return fmt::format(R"(static_assert(nacre::kLibraryVersion == {} && nacre::kStaticVersion == {},
              "these tables are for another version of nacre: write them again with nacre firmware");
static_assert(sizeof(void*) == {}, "these tables are for {}");
static_assert(sizeof(nacre::StepRecord) == {} && sizeof(nacre::TensorRecord) == {});

)",
                     kLibraryVersion, kStaticVersion, s.machine.pointer_bytes, s.machine.name, sizeof(StepRecord),
                     sizeof(TensorRecord));
}

// RAM: nothing else of the program is written.
std::string memory(const StaticSource& s) {
  std::string text;
  for (uint32_t block = StaticTables::kStreamBlock; block < s.tables.block_bytes.size(); ++block) {
    if (s.tables.block_bytes[block] == 0) continue;
    if (block >= StaticTables::kArenaBlock) {
      const uint32_t bank = block - StaticTables::kArenaBlock;
      text += fmt::format("#ifdef NACRE_BANK_{0}_SECTION\n[[gnu::section(NACRE_BANK_{0}_SECTION)]]\n#endif\n", bank);
    }
    text += fmt::format("alignas({}) constinit std::byte {}[{}];\n", kAlignment, block_symbol(block),
                        s.tables.block_bytes[block]);
  }
  if (s.tables.scratch_bytes != 0)
    text += fmt::format("alignas({}) constinit std::byte scratch[{}];\n", kAlignment, s.tables.scratch_bytes);
  return text + "\n";
}

std::string calls(const StaticTables& t) {
  std::string members, values;
  for (size_t i = 0; i < t.calls.size(); ++i) {
    members += fmt::format("  nacre::StaticCall<{}> call_{};\n", t.calls[i].operands.size(), i);
    values += call_text(t.calls[i]);
  }
  return fmt::format("struct Calls {{\n{}}};\nstatic_assert(sizeof(Calls) == {});\n\n", members, t.call_bytes) +
         fmt::format("constexpr Calls kCalls = {{\n{}}};\n\n", values);
}

std::string ports_text(const char* name, const std::vector<StaticTables::Port>& ports) {
  return fmt::format("constexpr std::span<std::byte> {}[] = {{\n", name) +
         lines(ports, "    ", [](const auto& p) { return fmt::format("{{{}, {}}}", address(p.place), p.bytes); }) +
         "};\n";
}

std::string blocks(const StaticTables& t) {
  std::vector<std::string> all;
  for (uint32_t block = 0; block < t.block_bytes.size(); ++block)
    all.push_back(t.block_bytes[block] == 0 ? "{}"
                                            : fmt::format("{{{}, {}}}", block_symbol(block), t.block_bytes[block]));
  for (size_t i = 0; i < t.ops.size(); ++i) all.push_back(fmt::format("{{&kOp{0}, sizeof kOp{0}}}", i));
  return fmt::format("constexpr nacre::StaticBlock kBlocks[] = {{{}}};\n\n", fmt::join(all, ", "));
}

// A constant that somebody changed in the source is the compiler's to find: of ops no number is known here.
std::string unchanged(const StaticTables& t, const std::vector<uint32_t>& words) {
  const uint32_t crc =
      static_crc<TensorRecord>(t.records, static_crc<StepRecord>(t.steps, static_crc<uint32_t>(words)));
  return fmt::format(R"(static_assert(nacre::static_crc<nacre::TensorRecord>(
                  kRecords, nacre::static_crc<nacre::StepRecord>(kSteps, nacre::static_crc<uint32_t>(kWords))) == {}u,
              "a constant is not what nacre firmware wrote");

)",
                     crc);
}

// Of the kernels that are not the reference's: what declares them and their ops.
std::string port_includes(const StaticTables& t) {
  const bool cortex_m =
      std::ranges::any_of(t.calls, [](const auto& call) { return call.function.starts_with("cortex_m::"); });
  return cortex_m ? "#include \"ports/cortex_m/entry_functions.h\"\n" : "";
}

std::string tables(const StaticSource& s) {
  const StaticTables& t = s.tables;
  std::string text = top(s, "The tables");
  text += fmt::format("#include \"{}.h\"\n\n#include \"engine/kernels/entry_functions.h\"\n", s.name) +
          "#include \"engine/ops/all.h\"\n" + port_includes(t) + "\n" + assertions(s);
  text += fmt::format("extern \"C\" const uint8_t {0}_weights[{1}];  // {0}_weights.cc\n\nnamespace {{\n\n", s.name,
                      t.weights.bytes().size());
  text += fmt::format("constexpr const uint8_t* weights = {}_weights;\n", s.name);
  text += "\n" + memory(s);
  const std::vector<uint32_t> words = t.words.empty() ? std::vector<uint32_t>{0} : t.words;
  text += "constexpr uint32_t kWords[] = {\n" +
          lines(words, "    ", [](uint32_t word) { return fmt::format("{}u", word); }) + "};\n";
  text += "constexpr nacre::StepRecord kSteps[] = {\n" + lines(t.steps, "    ", step_text) + "};\n";
  text += "constexpr nacre::TensorRecord kRecords[] = {\n" + lines(t.records, "    ", record_text) + "};\n";
  text += unchanged(t, words);
  for (size_t i = 0; i < t.ops.size(); ++i) text += op_text(t.ops[i], i);
  text += "\n";
  text += calls(t) + ports_text("kInputs", t.inputs) + ports_text("kOutputs", t.outputs) + blocks(t);
  const bool streams = t.block_bytes[StaticTables::kStreamBlock] != 0;
  return text + fmt::format(R"(}}  // namespace

constinit const nacre::StaticProgram {}_program = {{
    .calls = {{.first = &kCalls.call_0.call, .words = {}, .scratch = {}, .workers = nullptr}},
    .call_count = {},
    .inputs = kInputs,
    .outputs = kOutputs,
    .stream = {},
    .blocks = kBlocks,
    .first_op = {},
    .hash = {{{}}},
    .crc = {}u,
}};
)",
                            s.name, t.keeps_records() ? "kWords" : "nullptr", t.scratch_bytes == 0 ? "{}" : "scratch",
                            t.calls.size(), streams ? "stream" : "{}", t.block_bytes.size(), fmt::join(t.hash, ", "),
                            t.crc);
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

// Of integers to the bit; of float32 as close as two libms are; of other floats to the bit too.
const char* comparison(const StaticSource& s) {
  const bool floats = std::ranges::all_of(s.tables.outputs, [&](const StaticTables::Port& port) {
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
         fmt::format("#include \"engine/run/self_test.h\"\n\n#include \"{}.h\"\n\nnamespace {{\n\n", s.name) +
         golden_array(s, "kGoldenInputs", &GoldenPair::inputs) +
         golden_array(s, "kGoldenOutputs", &GoldenPair::outputs) +
         fmt::format(R"(
}}  // namespace

int {0}_self_test(void (*print)(const char* text)) {{
  const nacre::GoldenPairs golden = {{kGoldenInputs, kGoldenOutputs, {1}, nacre::{2}}};
  return nacre::self_test({0}_program, golden, print);
}}
)",
                     s.name, s.golden.size(), comparison(s));
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
                                                            {source.name + ".cc", tables(source)},
                                                            {source.name + "_weights.cc", weights(source)},
                                                            {source.name + "_test.cc", test(source)},
                                                            {source.name + "_main.c", main_program(source)}};
  std::ranges::move(static_builds(source.name, top(source, "The build", "#")), std::back_inserter(files));
  return files;
}

}  // namespace nacre::tools
