#include "tools/model/loaded_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/kernels/training.h"
#include "engine/model/flatbuffer.h"
#include "engine/train/checkpoint_magic.h"
#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/files/input_file.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

// Returns a name from the file, which may hold anything. Control codes become '?', so that none reaches a terminal.
std::string text(const flatbuffers::String* s, bool lines = false) {
  std::string result = s == nullptr ? std::string() : s->str();
  for (char& c : result)
    if ((static_cast<unsigned char>(c) < 0x20 && !(lines && c == '\n')) || c == 0x7F) c = '?';
  return result;
}

ExitCode exit_code_of(Code code) {
  const bool other_library =
      code == Code::kVersion || code == Code::kFeature || code == Code::kNoKernel || code == Code::kNoEntry;
  return other_library ? kUnsupported : kBadInput;
}

// Returns whether a network or its data can cause this code, even if the model was made correctly.
bool is_of_network(Code code) {
  return code == Code::kWork || code == Code::kTooLarge || code == Code::kNotFinite || code == Code::kIndex;
}

std::string remedy_of(Code code) {
  switch (code) {
    case Code::kNull:
    case Code::kMagic: return "a network is converted first: nacre convert NETWORK -o MODEL";
    case Code::kVersion:
    case Code::kFeature: return "convert the network again with this nacre, or run it with the one that made it";
    case Code::kTooSmall:
    case Code::kLengthOver:
    case Code::kLengthUnder:
    case Code::kCrc:
    case Code::kSegmentCrc: return "copy the file again, or convert the network again";
    case Code::kNoEntry: return "convert the network for this target: nacre convert " + option("target", "NAME");
    case Code::kNoKernel: return "this nacre has the reference kernels only; convert the network again with it";
    case Code::kWork: return "convert it with a smaller batch, or split the network";
    case Code::kTooLarge:
    case Code::kCount: return "split the network into several";
    case Code::kNotFinite: return "mend the network's weights, or take a policy of a type that holds them";
    case Code::kIndex: return "give indices below the number of rows of their table, and labels below that of classes";
    case Code::kNothingAccumulated: return "accumulate a micro-batch before each commit";
    case Code::kLearningRate: return "give a rate of 0 or more";
    case Code::kOneMicroBatch:
      return "commit behind each micro-batch, or convert without " + option("update", "immediate");
    case Code::kRows: return "give at least one row, and no more than were compiled";
    default: return "the file was changed after it was made; convert the network again";
  }
}

// Writes the two numbers of a refusal in words; "" if there are none or they are no amounts.
std::string numbers_of(const Status& s) {
  if (s.needed == 0 && s.given == 0) return "";
  switch (s.code) {
    case Code::kCrc:
    case Code::kSegmentCrc: return fmt::format(" (stated {:08x}, found {:08x})", s.needed, s.given);
    case Code::kWrittenTwice:
    case Code::kReadBeforeWrite:
    case Code::kNotLive:
    case Code::kRole:
    case Code::kOperandId:
      return s.table == Table::kStep ? fmt::format(" (operand {}, tensor {})", s.needed, s.given) : "";
    case Code::kMemorySize:
    case Code::kLengthOver:
    case Code::kLengthUnder:
    case Code::kTooSmall:
    case Code::kBytes: return fmt::format(" (needed {} bytes, given {})", grouped(s.needed), grouped(s.given));
    default: return fmt::format(" (needed {}, given {})", grouped(s.needed), grouped(s.given));
  }
}

std::string fact_of(const Status& s) {
  const char* fact = sentence(s.code);
  return (*fact != 0 ? fact : fmt::format("refused with code {}", int(s.code))) + numbers_of(s);
}

std::vector<std::string> texts(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* names,
                               size_t count) {
  std::vector<std::string> result(count);
  for (size_t i = 0; names != nullptr && i < std::min<size_t>(count, names->size()); ++i)
    result[i] = text(names->Get(uint32_t(i)));
  return result;
}

// Returns whether the file begins as a slot of a checkpoint does (engine/train/checkpoint_magic.h).
bool is_checkpoint(std::span<const std::byte> file) {
  return file.size() >= sizeof kCheckpointMagic &&
         std::memcmp(file.data(), kCheckpointMagic, sizeof kCheckpointMagic) == 0;
}

uint64_t memory_of_machine() { return uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGE_SIZE)); }

// Returns the kernel sets of the reference; before them that of the program's tier (kernel_choice.h), if it has one.
std::vector<const KernelSet*> kernel_sets(const LoadedModel& model, uint32_t program) {
  return kernels_of_target(model.program_names(program).target);
}

}  // namespace

void AlignedBytes::resize(size_t bytes) {
  constexpr size_t kLine = 64;
  if (bytes > capacity_) {
    std::unique_ptr<void, Free> block(bytes > SIZE_MAX - kLine ? nullptr : std::calloc(bytes + kLine, 1));
    if (block == nullptr) throw std::bad_alloc();
    const size_t misaligned = reinterpret_cast<uintptr_t>(block.get()) % kLine;
    auto* data = static_cast<std::byte*>(block.get()) + (kLine - misaligned);
    if (size_ > 0) std::memcpy(data, data_, size_);
    block_ = std::move(block);
    data_ = data;
    capacity_ = bytes;
  } else if (bytes > size_) {
    std::memset(data_ + size_, 0, bytes - size_);
  }
  size_ = bytes;
}

void resize_for(AlignedBytes& memory, uint64_t bytes, const std::string& place, const char* purpose) {
  try {
    memory.resize(size_t(bytes));
  } catch (const std::bad_alloc&) {
    throw Error(kFailed, place,
                fmt::format("needs {} bytes of memory {}, and is not given them", grouped(bytes), purpose),
                "raise the limit on memory (ulimit -v), or take a smaller " + option("batch"));
  }
}

LoadedModel::LoadedModel(const std::string& path) : path_(path) {
  const InputFile file(path);
  file_.resize(size_t(std::min<uint64_t>(file.size(), kHeadBytes)));
  if (file.read(0, file_.bytes()) == kHeadBytes) read_rest(file);
  open();
}

// Reads the rest of a model file. Reads nothing if the head is not a model's. Throws if the file's length is not the
// one that its header states.
void LoadedModel::read_rest(const InputFile& file) {
  const Status head = model_.open(file_.bytes());
  if (head.code != Code::kLengthOver) return;
  const uint64_t stated = head.needed;
  if (stated != file.size())
    require(
        {stated > file.size() ? Code::kLengthOver : Code::kLengthUnder, head.table, head.index, stated, file.size()});
  if (stated > memory_of_machine())
    throw Error(kBadInput, path_, fmt::format("has {} bytes", grouped(stated)),
                fmt::format("this machine has {} of memory", grouped(memory_of_machine())));
  file_.resize(size_t(stated));
  if (file.read(0, file_.bytes()) != stated) throw Error(kIo, path_, "became shorter while it was read");
}

LoadedModel::LoadedModel(std::span<const uint8_t> bytes, const std::string& name, const std::string& remedy)
    : path_(name), remedy_(remedy) {
  file_.resize(bytes.size());
  std::ranges::copy(std::as_bytes(bytes), file_.bytes().begin());
  open();
}

void LoadedModel::open() {
  if (file_.bytes().empty()) throw Error(kBadInput, path_, "is empty", remedy_of(Code::kNull));
  const Status status = model_.open(file_.bytes());
  if (status.code == Code::kMagic && is_checkpoint(file_.bytes()))
    throw Refused(kBadInput, path_, "is a checkpoint of a training, and no model",
                  "nacre export TRAINING_MODEL " + option("checkpoint", "DIR") + " -o MODEL writes its model", status);
  require(status);
}

void LoadedModel::require(const Status& status) const {
  if (status.ok()) return;
  const std::string where = place(status);
  throw Refused(exit_code_of(status.code), where.empty() ? path_ : path_ + ", " + where, fact_of(status),
                remedy_.empty() || is_of_network(status.code) ? remedy_of(status.code) : remedy_, status);
}

std::string LoadedModel::place(const Status& status) const {
  switch (status.table) {
    case Table::kNone:
    case Table::kFile:
    case Table::kRoot:
    case Table::kHeader: return "";
    case Table::kMemory:
      return status.index < kArena ? "memory, " + block_name(status.index, {})
                                   : fmt::format("memory, arena bank {}", status.index - kArena);
    case Table::kStep:
      if (model_.opened() && status.index < model_.steps().size() && !step_name(status.index).empty())
        return fmt::format("step {} ({})", status.index, step_name(status.index));
      break;
    case Table::kTensor:
      if (model_.opened() && status.index < model_.tensors().size())
        return fmt::format("tensor {} ({})", status.index, tensor_name(status.index));
      break;
    default: break;
  }
  const char* table = table_name(status.table);
  return fmt::format("{} {}", *table != 0 ? table : "record", status.index);
}

uint32_t LoadedModel::find_program(Entry entry, const std::string& target) const {
  uint32_t index = 0;
  const std::vector<std::string> targets = targets_of(entry);
  const std::string* const wanted = target.empty() ? target_for_here(targets) : &target;
  Status found = model_.find(entry, wanted == nullptr ? nullptr : wanted->c_str(), &index);
  // if the file's target names are damaged
  if (!found.ok() && target.empty()) found = model_.find(entry, nullptr, &index);
  if (found.ok()) return index;
  if (targets.empty()) require(found);
  throw Error(kUnsupported, option("target", target),
              fmt::format("{} has no {} program for it", path_, entry == Entry::kInfer ? "inference" : "training"),
              fmt::format("it has: {}", fmt::join(targets, ", ")));
}

std::vector<std::string> LoadedModel::targets_of(Entry entry) const {
  std::vector<std::string> targets;
  for (uint32_t i = 0; i < model_.program_count(); ++i)
    if (model_.program(i).entry == entry) targets.push_back(program_names(i).target);
  return targets;
}

std::string LoadedModel::tensor_name(uint32_t tensor) const {
  const auto* names = model_.root()->tensor_names();
  return names != nullptr && tensor < names->size() ? text(names->Get(tensor)) : fmt::format("tensor{}", tensor);
}

uint32_t LoadedModel::layer_count() const { return model_.root()->layers()->size(); }

LayerName LoadedModel::layer(uint32_t index) const {
  const schema::Layer& layer = *model_.root()->layers()->Get(index);
  LayerName result = {text(layer.name()), text(layer.source_op())};
  static_assert(sizeof result.policy == sizeof(schema::PolicyRecord));
  std::memcpy(static_cast<void*>(&result.policy), layer.policy(), sizeof result.policy);
  return result;
}

std::string LoadedModel::step_name(uint32_t step) const {
  const uint32_t index = model_.steps()[step].layer;
  return index == kNoIndex ? "" : layer(index).name;
}

ProgramNames LoadedModel::program_names(uint32_t program) const {
  const schema::Program& p = *model_.root()->programs()->Get(program);
  const size_t inputs = p.inputs()->size(), outputs = p.outputs()->size();
  return {.target = text(p.target()),
          .banks = texts(p.bank_names(), p.banks()->size()),
          .inputs = texts(p.input_names(), inputs),
          .outputs = texts(p.output_names(), outputs),
          .input_layouts = texts(p.input_layouts(), inputs),
          .output_layouts = texts(p.output_layouts(), outputs),
          .liveness_bound = p.liveness_bound()};
}

std::optional<Scales> LoadedModel::scales(uint32_t tensor) const {
  const uint32_t index = model_.tensors()[tensor].quantizer;
  if (index == kNoIndex) return std::nullopt;
  const schema::QuantizerRecord& q = *model_.root()->quantizers()->Get(index);
  if (q.scales() == kNoIndex) return Scales{{q.scale()}, {q.zero()}, 0};
  const auto in_weights = [&](uint32_t id) {
    return id == kNoIndex || model_.tensors()[id].region == Region::kWeights;
  };
  if (!in_weights(q.scales()) || !in_weights(q.zeros())) return std::nullopt;  // training changes these
  const auto count = size_t(model_.tensors()[q.scales()].dims[0]);
  Scales scales = {std::vector<float>(count), std::vector<int32_t>(count, q.zero()), q.axis()};
  std::memcpy(scales.scale.data(), model_.weights(q.scales()), count * sizeof(float));
  if (q.zeros() != kNoIndex) std::memcpy(scales.zero.data(), model_.weights(q.zeros()), count * sizeof(int32_t));
  return scales;
}

uint64_t LoadedModel::weight_bytes() const {
  uint64_t sum = 0;
  for (const auto* segment : *model_.root()->segments()) sum += segment->bytes();
  return sum;
}

std::vector<std::pair<std::string, std::string>> LoadedModel::metadata() const {
  std::vector<std::pair<std::string, std::string>> pairs;
  if (const auto* metadata = model_.root()->metadata())
    for (const auto* pair : *metadata) pairs.emplace_back(text(pair->key()), text(pair->value(), true));
  return pairs;
}

std::vector<GoldenView> LoadedModel::golden() const {
  std::vector<GoldenView> pairs;
  if (const auto* golden = model_.root()->golden())
    for (const auto* pair : *golden)
      pairs.push_back({pair->program(),
                       {pair->inputs()->data(), pair->inputs()->size()},
                       {pair->outputs()->data(), pair->outputs()->size()},
                       pair->tolerance()});
  return pairs;
}

Sizes measure(const LoadedModel& model, uint32_t program, const Machine& machine) {
  Sizes sizes;
  model.require(Program::measure(model.model(), program, kernel_sets(model, program), &sizes, machine));
  return sizes;
}

std::string block_name(uint32_t block, const ProgramNames& names) {
  constexpr const char* kNames[] = {"calls", "prepared", "scratch", "state", "stream", "derived", "step sums"};
  static_assert(std::size(kNames) == kArena);
  if (block < kArena) return kNames[block];
  const uint32_t bank = block - kArena;
  const std::string name = bank < names.banks.size() ? names.banks[bank] : "";
  if (name.empty() || name == "arena") return bank == 0 ? "arena" : fmt::format("arena bank {}", bank);
  return fmt::format("arena bank {} ({})", bank, name);
}

bool names_place(const Model& model, const ProgramView& view, uint8_t place) {
  return std::ranges::any_of(model.steps().subspan(view.first_step, view.step_count),
                             [&](const StepRecord& step) { return step.place == place; });
}

Ports ports_for(const LoadedModel& model, uint32_t program, const std::string& choice) {
  const std::string target = model.program_names(program).target;
  if (chooses_gpu(choice) && is_gpu_target(target)) return {nullptr, gpu_port(target, choice)};
  Ports ports = {port_for(choice, target)};
  if (is_gpu_target(target)) return ports;
  const bool named = names_place(model.model(), model.model().program(program), kXnnpackPlace);
  if (choice == "auto" && named && xnnpack_port() != nullptr) ports.push_back(xnnpack_port());
  return ports;
}

std::shared_ptr<const ThreadPool> make_threads(uint32_t count) try {
  return count > 1 ? std::make_shared<const ThreadPool>(int(count)) : nullptr;
} catch (const ThreadsRefused& refused) {
  throw Error(kFailed, "threads", refused.what(),
              "ask for fewer, or raise the limit of processes or of memory (ulimit -u, ulimit -v)");
}

// If no port is given, takes the kernels of the program's target, for which its weights may be packed.
BoundProgram::BoundProgram(const LoadedModel& model, uint32_t index, Ports ports,
                           std::shared_ptr<const ThreadPool> threads)
    : model_(model), threads_(std::move(threads)), ports_(std::move(ports)), places_(ports_) {
  if (ports_[0] == nullptr) ports_[0] = port_for_target(model.program_names(index).target);
  const std::vector<const KernelSet*> kernels = kernels_of_target("");
  const Workers* const workers = threads_ == nullptr ? nullptr : threads_->workers();
  const Machine machine = {.workers = workers == nullptr ? 1 : uint32_t(workers->count)};
  const bool placed = std::ranges::any_of(ports_, [](const Port* port) { return port != nullptr; });
  model.require(placed ? places_.measure(model.model(), index, kernels, &sizes_, machine)
                       : Program::measure(model.model(), index, kernels, &sizes_, machine));
  uint64_t total = 0;
  for (const uint64_t bytes : sizes_.bytes)
    if (__builtin_add_overflow(total, bytes, &total)) total = UINT64_MAX;
  if (total > memory_of_machine())
    throw Error(kBadInput, model.path(), fmt::format("needs {} bytes of memory to run", grouped(total)),
                fmt::format("this machine has {}", grouped(memory_of_machine())));
  resize_for(memory_, sizes_.total(places_.alignment()), model.path(), "to run");
  Memory memory;
  model.require(Memory::cut(memory_.bytes(), sizes_, &memory, places_.alignment()));
  if (const uint64_t bytes = places_.bytes(kGpuPlace); bytes != 0) {
    gpu_memory_.emplace(size_t(bytes));
    model.require(places_.give(kGpuPlace, gpu_memory_->bytes()));
  }
  model.require(placed ? places_.bind(&program_, model.model(), index, kernels, memory, workers)
                       : program_.bind(model.model(), index, kernels, memory, workers));
  for (uint32_t id = 0; id < model.model().tensors().size(); ++id) {
    const TensorRecord& r = model.model().tensors()[id];
    if (r.region == Region::kState && r.initial != kNoIndex)
      std::memcpy(program_.bytes(id).data(), model.model().weights(r.initial), size_t(r.bytes));
  }
}

std::vector<uint8_t> BoundProgram::run(std::span<const uint8_t> inputs) {
  for (uint32_t i = 0; i < program_.input_count(); ++i) {
    const std::span<std::byte> input = program_.input(i);
    std::memcpy(input.data(), inputs.data(), input.size());
    inputs = inputs.subspan(input.size());
  }
  model_.require(program_.run());
  std::vector<uint8_t> outputs;
  for (uint32_t i = 0; i < program_.output_count(); ++i) {
    const auto* data = reinterpret_cast<const uint8_t*>(program_.output(i).data());
    outputs.insert(outputs.end(), data, data + program_.output(i).size());
  }
  return outputs;
}

}  // namespace nacre::tools
