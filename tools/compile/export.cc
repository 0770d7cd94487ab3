#include "tools/compile/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tools/base/error.h"
#include "tools/differentiate/trained_channels.h"
#include "tools/differentiate/trained_codes.h"
#include "tools/graph/layouts.h"

namespace nacre::tools {
namespace {

std::shared_ptr<const std::vector<uint8_t>> copied(std::span<const std::byte> bytes) {
  const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
  return std::make_shared<const std::vector<uint8_t>>(first, first + bytes.size());
}

class Raise {
 public:
  Raise(const LoadedModel& loaded, const Program& program) : loaded_(loaded), program_(program) {}

  Graph run() {
    const ProgramView& view = program_.view();
    const uint32_t index = program_index();
    const ProgramNames names = loaded_.program_names(index);
    graph_.source = loaded_.path();
    graph_.batch = int(view.batch);
    graph_.liveness_bound = names.liveness_bound;
    graph_.metadata = loaded_.metadata();
    graph_.banks.clear();
    for (size_t bank = 0; bank < view.banks.size(); ++bank)
      graph_.banks.push_back({names.banks[bank], 0, view.banks[bank]});
    for (uint32_t layer = 0; layer < loaded_.layer_count(); ++layer) {
      const LayerName l = loaded_.layer(layer);
      graph_.layers.push_back({.name = l.name, .source_op = l.source_op, .policy = l.policy});
    }
    for (size_t i = 0; i < view.inputs.size(); ++i)
      graph_.inputs.push_back({names.inputs[i], value(view.inputs[i]), names.input_layouts[i]});
    for (uint32_t step = view.first_step; step < view.first_step + view.step_count; ++step) node(step);
    for (size_t i = 0; i < view.outputs.size(); ++i)
      graph_.outputs.push_back({names.outputs[i], value(view.outputs[i]), names.output_layouts[i]});
    return std::move(graph_);
  }

 private:
  const Model& model() const { return loaded_.model(); }

  uint32_t program_index() const {
    for (uint32_t i = 0; i < model().program_count(); ++i)
      if (model().program(i).first_step == program_.view().first_step) return i;
    return 0;
  }

  ValueId value(uint32_t id) {
    if (id == kNoOperand || id == kNoIndex) return kNone;
    if (const auto found = ids_.find(id); found != ids_.end()) return found->second;
    const TensorRecord& r = model().tensors()[id];
    Value v;
    v.name = loaded_.tensor_name(id);
    v.type = r.element;
    v.dims.assign(r.dims, r.dims + r.rank);
    v.batched = (r.flags & kBatched) != 0;
    if (r.region == Region::kArena) {
      v.alias_of = r.alias_of == kNoIndex ? kNone : value(r.alias_of);
      v.bank = r.bank;
      v.offset = r.offset;
      v.first_step = r.first_step;
      v.last_step = r.last_step;
    } else if (r.region == Region::kStream) {
      v.region = r.region;
    } else {
      v.region = Region::kWeights;
      v.data = std::make_shared<const std::vector<uint8_t>>(row_major_bytes(r, program_.bytes(id).data()));
      v.stored = v.type;
      v.batched = false;
    }
    if (const std::optional<Scales> scales = loaded_.scales(id))
      v.quantizer = Quantizer{r.element, scales->scale, {scales->zero.begin(), scales->zero.end()}, scales->axis};
    const ValueId made = graph_.add(std::move(v));
    ids_.emplace(id, made);
    return made;
  }

  void node(uint32_t index) {
    const StepRecord& step = model().steps()[index];
    const Words words = model().words(step);
    Node node;
    node.op = step.op;
    node.rounding = step.rounding;
    node.name = loaded_.step_name(index);
    node.layer = step.layer == kNoIndex ? kNone : int(step.layer);
    node.words.assign(words.data, words.data + words.count);
    const uint32_t* operands = model().operands(step);
    for (uint32_t i = 0; i < step.operand_count; ++i) {
      const ValueId id = value(operands[i] & kOperandIdMask);
      (Role(operands[i] >> 30) == Role::kOut ? node.outputs : node.inputs).push_back(id);
    }
    node.guard = value(step.guard);
    graph_.nodes.push_back(std::move(node));
  }

  const LoadedModel& loaded_;
  const Program& program_;
  Graph graph_;
  std::map<uint32_t, ValueId> ids_;
};

}  // namespace

Graph inference_graph(const LoadedModel& model, const Program& infer) {
  Graph graph = Raise(model, infer).run();
  check(graph);
  return graph;
}

int with_parameters(Graph& simplified, const LoadedModel& model, std::span<const std::byte> state) {
  std::map<std::string, uint32_t> ids;
  const std::span<const TensorRecord> tensors = model.model().tensors();
  for (uint32_t id = 0; id < tensors.size(); ++id)
    if (tensors[id].region == Region::kState) ids.emplace(model.tensor_name(id), id);
  int taken = with_codes(simplified, model, state) + with_channels(simplified, model, state);
  for (Value& v : simplified.values) {
    const auto found = ids.find(v.name);
    if (!v.constant() || found == ids.end() || ids.contains(v.name + kMaster)) continue;  // with_codes set it
    const TensorRecord& r = tensors[found->second];
    if (!std::equal(v.dims.begin(), v.dims.end(), r.dims, r.dims + r.rank))
      throw Error(kBadInput, model.path(),
                  fmt::format("its state tensor {} has another shape than the network's", v.name),
                  "name the network that the training model was made of");
    Value learned = v;
    learned.data = copied(state.subspan(size_t(r.offset), size_t(r.bytes)));
    learned.stored = learned.type = r.element;
    learned.quantizer.reset();
    set_reals(v, reals(learned));
    ++taken;
  }
  return taken;
}

}  // namespace nacre::tools
