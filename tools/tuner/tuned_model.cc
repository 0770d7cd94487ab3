#include "tools/tuner/tuned_model.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/compile/export.h"
#include "tools/differentiate/trained_channels.h"
#include "tools/model/golden.h"
#include "tools/model/writer.h"

namespace nacre::tools {
namespace {

std::vector<uint8_t> outputs_of(const Program& program, std::span<const uint8_t> inputs, const LoadedModel& model) {
  for (uint32_t i = 0; i < program.input_count(); ++i) {
    const std::span<std::byte> input = program.input(i);
    std::memcpy(input.data(), inputs.data(), input.size());
    inputs = inputs.subspan(input.size());
  }
  std::vector<uint8_t> outputs;
  const Status status = program.run();
  // drawn indices may be beyond a table's end, for both programs alike
  if (status.code == Code::kIndex) return outputs;
  model.require(status);
  for (uint32_t i = 0; i < program.output_count(); ++i) {
    const auto* data = reinterpret_cast<const uint8_t*>(program.output(i).data());
    outputs.insert(outputs.end(), data, data + program.output(i).size());
  }
  return outputs;
}

}  // namespace

std::vector<uint8_t> tuned_model(LoadedTrainer& trainer,
                                 const std::vector<std::pair<std::string, std::string>>& metadata) {
  const LoadedModel& source = trainer.loaded();
  // The reference kernels compute all that is written and compared to the bit. So the result depends on the state
  // alone, not on the kernels that trained it.
  std::optional<LoadedTrainer> reference;
  if (trainer.ported()) {
    reference.emplace(source, Ports{nullptr}, 1, trainer.target());
    std::ranges::copy(trainer.state(), reference->trainer().state().begin());
    source.require(reference->trainer().restored());
  }
  const Program& infer = (reference ? *reference : trainer).trainer().infer();
  Graph graph = inference_graph(source, infer);
  merge_channels(graph);
  graph.metadata.insert(graph.metadata.end(), metadata.begin(), metadata.end());
  std::ranges::sort(graph.metadata);
  const ProgramSource program = {.graph = &graph, .entry = Entry::kInfer, .target = trainer.target()};
  std::vector<uint8_t> bytes = write_model({&program, 1}, {});

  constexpr const char* kReport = "this is a defect of the exporter: report it with the model";
  const LoadedModel made(bytes, source.path(), kReport);
  if (const Status status = made.model().check_weights(); !status.ok())
    throw Error(kFailed, source.path(),
                std::string("what was learned cannot be written: ") + made.place(status) + ": " + sentence(status.code),
                "take a lower " + option("lr") + ", or go back to an earlier checkpoint");
  BoundProgram bound(made, made.infer_program());
  const std::vector<uint8_t> inputs = seeded_inputs(made, made.infer_program(), 1);
  if (outputs_of(bound.program(), inputs, made) != outputs_of(infer, inputs, source))
    throw Error(kFailed, source.path(), "the exported model computes other numbers than the trained one", kReport);
  return bytes;
}

}  // namespace nacre::tools
