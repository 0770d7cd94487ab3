// Writes NAME.cc of a static program.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/model/static_text.h"

namespace nacre::tools {
namespace {

// Returns the variable of a block: "weights", "stream", "arena", "bank_1", "state".
std::string block_symbol(const StaticTables& t, uint32_t block) {
  if (block == StaticTables::kWeightsBlock) return "weights";
  if (block == StaticTables::kStreamBlock) return "stream";
  if (block == t.state_block(kState)) return "state";
  if (block == t.state_block(kDerived)) return "derived";
  if (block == t.state_block(kStepSums)) return "step_sums";
  const uint32_t bank = block - StaticTables::kArenaBlock;
  return bank == 0 ? "arena" : fmt::format("bank_{}", bank);
}

std::string address(const StaticTables& t, const StaticPlace& place) {
  if (place.block == kNoIndex) return "nullptr";
  const std::string text = fmt::format("{} + {}", block_symbol(t, place.block), place.offset);
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

// Writes a call with its operands: {{nacre::reference::ready::kDenseI8Double, &kSteps[0], op_0}, {{arena + 0,
// nullptr}, ..}}
std::string call_text(const StaticTables& t, const StaticTables::BoundStep& call) {
  const std::string operands = lines(call.operands, "      ", [&](const StaticTables::Operand& o) {
    return fmt::format("{{{}, {}}}", address(t, o.place), record_pointer(o.record));
  });
  const std::string op = call.op == kNoIndex ? "nullptr" : fmt::format("nacre::static_constant(&kOp{})", call.op);
  return fmt::format("    {{{{nacre::{}, &kSteps[{}], {}}},\n     {{\n{}     }}}},\n", call.function, call.step, op,
                     operands);
}

// Writes an op as a constant expression. Only the compiler uses its operands' records.
std::string op_text(const StaticTables::ReadyOp& op, size_t i) {
  return fmt::format("constexpr nacre::Tensor kOperandsOf{}[] = {{\n", i) +
         lines(op.records, "    ", [](uint32_t r) { return fmt::format("{{nullptr, {}}}", record_pointer(r)); }) +
         fmt::format(
             "}};\nconstexpr nacre::{0} kOp{1} = nacre::{0}::from({{kWords + {2}, {3}}}, "
             "{{kOperandsOf{1}, {4}, 0}});\nstatic_assert(sizeof kOp{1} == {5});\n",
             op.type, i, op.first_word, op.word_count, op.records.size(), op.bytes);
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

// Writes the variables in RAM. The program writes to nothing else.
std::string memory(const StaticSource& s) {
  std::string text;
  for (uint32_t block = StaticTables::kStreamBlock; block < s.tables.block_bytes.size(); ++block) {
    if (s.tables.block_bytes[block] == 0) continue;
    if (block >= StaticTables::kArenaBlock && block < StaticTables::kArenaBlock + s.tables.banks) {
      const uint32_t bank = block - StaticTables::kArenaBlock;
      text += fmt::format("#ifdef NACRE_BANK_{0}_SECTION\n[[gnu::section(NACRE_BANK_{0}_SECTION)]]\n#endif\n", bank);
    }
    text += fmt::format("alignas({}) constinit std::byte {}[{}];\n", kAlignment, block_symbol(s.tables, block),
                        s.tables.block_bytes[block]);
  }
  if (s.tables.scratch_bytes != 0)
    text += fmt::format("alignas({}) constinit std::byte scratch[{}];\n", kAlignment, s.tables.scratch_bytes);
  return text + "\n";
}

// Returns the middle part of the names of a program's constants: kCalls, kGradientsCalls.
const char* prefix(Entry entry) {
  constexpr const char* kNames[] = {"", "Gradients", "Update", "Derive"};
  return kNames[size_t(entry)];
}

std::string calls(const StaticTables& t, Entry entry) {
  const StaticTables::BoundProgram& program = t.programs.at(entry);
  std::string members, values;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    members += fmt::format("  nacre::StaticCall<{}> call_{};\n", program.calls[i].operands.size(), i);
    values += call_text(t, program.calls[i]);
  }
  return fmt::format("struct {0}Calls {{\n{1}}};\nstatic_assert(sizeof({0}Calls) == {2});\n\n", prefix(entry), members,
                     program.call_bytes) +
         fmt::format("constexpr {0}Calls k{0}Calls = {{\n{1}}};\n\n", prefix(entry), values);
}

std::string ports_text(const StaticTables& t, const std::string& name, const std::vector<StaticTables::Port>& ports) {
  if (ports.empty()) return "";
  return fmt::format("constexpr std::span<std::byte> {}[] = {{\n", name) +
         lines(ports, "    ", [&](const auto& p) { return fmt::format("{{{}, {}}}", address(t, p.place), p.bytes); }) +
         "};\n";
}

std::string blocks(const StaticTables& t) {
  std::vector<std::string> all;
  for (uint32_t block = 0; block < t.block_bytes.size(); ++block)
    all.push_back(t.block_bytes[block] == 0 ? "{}"
                                            : fmt::format("{{{}, {}}}", block_symbol(t, block), t.block_bytes[block]));
  for (size_t i = 0; i < t.ops.size(); ++i) all.push_back(fmt::format("{{&kOp{0}, sizeof kOp{0}}}", i));
  return fmt::format("constexpr nacre::StaticBlock kBlocks[] = {{{}}};\n\n", fmt::join(all, ", "));
}

// Writes a static_assert that finds constants changed by hand. Ops are not checked: their bytes are unknown here.
std::string unchanged(const StaticTables& t, const std::vector<uint32_t>& words) {
  const uint32_t crc =
      static_crc<TensorRecord>(t.records, static_crc<StepRecord>(t.steps, static_crc<uint32_t>(words)));
  return fmt::format(R"(static_assert(nacre::static_crc<nacre::TensorRecord>(
                  kRecords, nacre::static_crc<nacre::StepRecord>(kSteps, nacre::static_crc<uint32_t>(kWords))) == {}u,
              "a constant is not what nacre firmware wrote");

)",
                     crc);
}

// Returns the include that declares the kernels and ops of Cortex-M, or "" if no program uses them.
std::string port_includes(const StaticTables& t) {
  for (const auto& [entry, program] : t.programs)
    for (const StaticTables::BoundStep& call : program.calls)
      if (call.function.starts_with("cortex_m::")) return "#include <nacre/cortex_m_functions.h>\n";
  return "";
}

// Returns the symbol of a program: "kws_program", "kws_gradients". Only the first is declared in the header.
std::string program_symbol(const StaticSource& s, Entry entry) {
  constexpr const char* kNames[] = {"program", "gradients", "update", "derive"};
  return fmt::format("{}_{}", s.name, kNames[size_t(entry)]);
}

std::string program_text(const StaticSource& s, Entry entry) {
  const StaticTables& t = s.tables;
  const StaticTables::BoundProgram& program = t.programs.at(entry);
  const auto list = [&](const char* name, const std::vector<StaticTables::Port>& ports) {
    return ports.empty() ? "{}" : fmt::format("k{}{}", prefix(entry), name);
  };
  return fmt::format(R"({}constinit const nacre::StaticProgram {} = {{
    .calls = {{.first = &k{}Calls.call_0.call, .words = {}, .scratch = {}, .workers = nullptr}},
    .call_count = {},
    .inputs = {},
    .outputs = {},
    .stream = {},
    .blocks = kBlocks,
    .first_op = {},
    .hash = {{{}}},
    .crc = {}u,
}};
)",
                     entry == Entry::kInfer ? "" : "static ", program_symbol(s, entry), prefix(entry),
                     program.keeps_records() ? "kWords" : "nullptr", t.scratch_bytes == 0 ? "{}" : "scratch",
                     program.calls.size(), list("Inputs", program.inputs), list("Outputs", program.outputs),
                     t.block_bytes[StaticTables::kStreamBlock] != 0 ? "stream" : "{}", t.block_bytes.size(),
                     fmt::join(t.hash, ", "), program.crc);
}

// Writes the tables of a training: the parts of the state that begin with weights, and the rows for checkpoints.
std::string training_tables(const StaticSource& s) {
  const StaticTrainingPart& t = *s.tables.training;
  std::string text;
  if (!t.initial.empty())
    text += "constexpr nacre::StaticInitial kInitial[] = {\n" +
            lines(t.initial, "    ",
                  [](const StaticInitialPart& part) {
                    return fmt::format("{{{}, {}, weights + {}}}", part.offset, part.bytes, part.weights_offset);
                  }) +
            "};\n";
  text += "constexpr nacre::StateRow kRows[] = {\n" + lines(t.rows, "    ", [](const StateRow& row) {
            return fmt::format("{{{}u, {}, {}, {}, nacre::ElementType({}), {{}}}}", row.name, row.offset, row.bytes,
                               row.elements, int(row.element));
          });
  text += fmt::format("}};\nconstexpr uint8_t kUses[] = {{{}}};\n\n", fmt::join(t.uses, ", "));
  return text;
}

std::string training_text(const StaticSource& s) {
  const StaticTables& t = s.tables;
  const auto program = [&](Entry entry) {
    return t.programs.contains(entry) ? "&" + program_symbol(s, entry) : "nullptr";
  };
  const auto block = [&](Block b) {
    const uint32_t index = t.state_block(b);
    return t.block_bytes[index] == 0 ? "{}" : block_symbol(t, index);
  };
  return fmt::format(R"(
constinit const nacre::StaticTraining {}_training = {{
    .infer = {},
    .gradients = {},
    .update = {},
    .derive = {},
    .state = {},
    .step = {},
    .initial = {},
    .rows = kRows,
    .uses = kUses,
    .samples = {},
    .floor = {},
    .wide = {},
}};
)",
                     s.name, program(Entry::kInfer), program(Entry::kGradients), program(Entry::kUpdate),
                     program(Entry::kDerive), block(kState), block(kStepSums),
                     t.training->initial.empty() ? "{}" : "kInitial", address(t, t.training->samples),
                     address(t, t.training->floor), t.training->wide);
}

}  // namespace

std::string static_tables_source(const StaticSource& s) {
  const StaticTables& t = s.tables;
  std::string text = top(s, "The tables");
  text += fmt::format("#include \"{}.h\"\n\n#include <nacre/static_tables.h>\n", s.name);
  text += port_includes(t) + "\n" + assertions(s);
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
  for (const auto& [entry, program] : t.programs) {
    text += calls(t, entry);
    text += ports_text(t, fmt::format("k{}Inputs", prefix(entry)), program.inputs);
    text += ports_text(t, fmt::format("k{}Outputs", prefix(entry)), program.outputs);
  }
  text += blocks(t);
  if (t.training) text += training_tables(s);
  text += "}  // namespace\n\n";
  for (const auto& [entry, program] : t.programs) text += program_text(s, entry);
  return t.training ? text + training_text(s) : text;
}

}  // namespace nacre::tools
