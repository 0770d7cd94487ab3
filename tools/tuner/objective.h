// Objective: what a model is trained for, read from its loss step: what its inputs and labels are, and how good its
// outputs are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/evaluate/decode.h"
#include "tools/graph/row_places.h"
#include "tools/model/loaded_model.h"
#include "tools/tuner/dataset.h"

namespace nacre::tools {

// Sums over samples. The sums over parts of a set add up to those of the set.
struct Judged {
  double loss = 0, samples = 0;     // sum of losses and its divisor, as the loss step counts them
  uint64_t right = 0, answers = 0;  // answers: predictions that can be right or wrong, of a cross-entropy; else 0
  uint64_t not_finite = 0;          // outputs that are NaN or +infinity; a mask may give -infinity

  void add(const Judged& other);
  double mean_loss() const;  // NaN without samples
  double accuracy() const;   // NaN without answers
};

class Objective {
 public:
  // Throws Error if the model does not train. `target` chooses the programs that train, as in
  // LoadedModel::find_program.
  explicit Objective(const LoadedModel& model, const std::string& target = "");

  uint32_t program() const { return program_; }  // the program that computes gradients
  uint32_t batch() const { return batch_; }      // rows that it takes at once
  // Returns whether each run needs a full batch: the network moves the batch off axis 0, or its file fixes the batch.
  bool whole_batches() const { return rows_.count > 0; }
  const std::vector<SampleSpec>& inputs() const { return inputs_; }
  const LabelSpec& labels() const { return labels_; }
  std::string loss_name() const;

  struct Output {
    uint32_t tensor = 0, batch = 0;
    uint32_t index = 0;  // among the program's outputs
    int64_t outer = 1;   // tools/graph/row_places.h
  };
  // The output that the loss judges: in the program that infers; in that which trains, unless with --update immediate.
  const Output& inferred() const { return inferred_; }
  const std::optional<Output>& trained() const { return trained_; }

  // Judges the first `rows` rows of an output, in float64, by the formulas of engine/ops/loss.h. If the output is a
  // softmax or sigmoid and the training loss reads its logits, the logits are computed from logarithms of the
  // probabilities: a probability of 0 counts as 2^-149.
  Judged judge(const Output& which, std::span<const std::byte> output, std::span<const uint8_t> labels,
               uint32_t rows) const {
    return judge(model_, which, output, labels, rows);
  }
  // Judges the output of another model of this network, made for inference.
  Judged judge(const LoadedModel& model, const Output& which, std::span<const std::byte> output,
               std::span<const uint8_t> labels, uint32_t rows) const;
  // Runs the program `infer` over rows of the data, a batch at a time. An incomplete last batch is filled with copies
  // of its last row, which are not judged. Ends early if `stop`, called after every run, returns true.
  Judged judge_rows(const LoadedModel& model, const Program& infer, const Dataset& data, std::span<const int64_t> rows,
                    const std::function<bool()>& stop = {}) const;

 private:
  void find_loss();
  void find_rows();
  uint32_t output_of(uint32_t program) const;  // index of the output that the loss judges
  SampleSpec spec_of(uint32_t tensor, const std::string& name, size_t data_input) const;
  // Origin of a tensor in a program, found through casts and reshapes: the tensor that it copies, and the step that
  // computes that tensor. kNoIndex: no step does, the tensor is an input or persists.
  struct Origin {
    uint32_t tensor = 0, step = kNoIndex;
  };
  Origin origin(const ProgramView& view, uint32_t tensor) const;

  void judge_classes(const std::vector<double>& y, std::span<const uint8_t> labels, Judged* judged) const;
  void judge_targets(const std::vector<double>& y, std::span<const uint8_t> labels, uint32_t rows,
                     Judged* judged) const;

  const LoadedModel& model_;
  uint32_t program_ = 0, batch_ = 0, loss_ = kNoIndex;  // loss_: index of the loss step
  Output inferred_;
  std::optional<Output> trained_;
  bool probabilities_ = false;  // the output is the softmax or sigmoid of the loss's logits
  FoundRows rows_;              // count 0: rows are along axis 0 of every tensor
  std::string output_;          // name; "": the first output
  std::vector<SampleSpec> inputs_;
  LabelSpec labels_;
};

}  // namespace nacre::tools
