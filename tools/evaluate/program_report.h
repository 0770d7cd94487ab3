// ProgramReport: one program as reports show it: its layers, their steps, attributes and operands by name, and the
// cost of each. The text, the JSON, the picture and the page of `nacre inspect` show it.
//
// No kernel is needed: kernels are only named if they exist. Any model that this library can open can be reported,
// even with unknown ops.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tools/model/loaded_model.h"

namespace nacre::tools {

struct ReportAttribute {
  const char* name;
  std::vector<std::variant<int32_t, float>> values;
};

struct ReportOperand {
  std::string slot;  // the op's name for it: "x", "w", "bias"
  Role role = Role::kIn;
  uint32_t tensor = kNoIndex;  // kNoIndex: absent
};

// Place of a tensor. An alias lies inside the tensor that it is a view of.
struct Location {
  uint32_t root;    // tensor id
  uint64_t offset;  // from the start of the region, bank or segment
};

struct ReportStep {
  uint32_t index = 0;  // in the program
  uint32_t layer = kNoIndex;
  Op op = Op::kNone;
  std::string op_name;
  Rounding rounding = Rounding::kNone;
  uint8_t place = 0;
  uint32_t guard = kNoIndex;  // a tensor: while it is 0, the step has no effect; kNoIndex: there is none
  std::string kernel;         // "avx2/dense_f32"; "" if no kernel takes it
  std::vector<ReportOperand> operands;
  std::vector<ReportAttribute> attributes;  // in word order; empty if the op is unknown
  uint64_t multiply_accumulates = 0;
  uint64_t weight_bytes = 0;      // of tensors outside the arena that no earlier step uses
  uint64_t activation_bytes = 0;  // of tensors that it writes

  uint32_t output() const;  // the first tensor it writes, or kNoIndex
};

struct ReportLayer {
  std::string name, source_op;
  Policy policy = {};
  std::vector<uint32_t> steps;  // indices in the program; empty: other layers' steps do its
                                // work, or it costs nothing
  uint64_t multiply_accumulates = 0, weight_bytes = 0, activation_bytes = 0;
};

class ProgramReport {
 public:
  // `target` chooses the kernels that are named (kernels_for in tools/model/step_kernels.h).
  ProgramReport(const LoadedModel& model, uint32_t program, const std::string& target = "");

  const LoadedModel& loaded() const { return loaded_; }
  uint32_t program() const { return program_; }
  const ProgramView& view() const { return view_; }
  const ProgramNames& names() const { return names_; }
  const std::vector<ReportStep>& steps() const { return steps_; }
  const std::vector<ReportLayer>& layers() const { return layers_; }
  const std::string& kernels() const { return kernels_; }  // "avx2": the set that is asked first
  std::map<std::string, uint32_t> reference_ops() const;   // op -> number of its steps that the reference runs

  const TensorRecord& tensor(uint32_t id) const { return loaded_.model().tensors()[id]; }
  Location location(uint32_t id) const;
  std::string shape_text(uint32_t id) const;  // "[1, 25, 5, 64]"
  // Returns "int8" if all types are equal, else "float32 x int8 -> float32": activations, weights of a matmul,
  // result.
  std::string types_text(const ReportStep& step) const;
  // Returns window, stride, clamp, axes and other attributes in a few words, without those that are 0.
  std::string summary(const ReportStep& step) const;

  // An edge from a writer to a reader. For each tensor that a step or the caller reads, there is one per writer of
  // its bytes.
  struct Edge {
    int from;     // step, or -1 - index of the program's input
    uint32_t to;  // step, or the number of steps + index of the program's output
    uint32_t written,
        read;  // tensor ids; they differ if the reader sees a view of the written tensor
  };
  std::vector<Edge> edges() const;

  // Returns for each step the bytes of the arena that hold a tensor while it runs, over all banks. If an output takes
  // over the bytes of an input, they count once.
  std::vector<uint64_t> live_bytes() const;

 private:
  void add_step(uint32_t index, std::vector<bool>* seen);
  void describe_operands(const StepRecord& record, ReportStep* step) const;
  void describe_attributes(const StepRecord& record, ReportStep* step) const;

  const LoadedModel& loaded_;
  uint32_t program_;
  ProgramView view_;
  ProgramNames names_;
  std::string kernels_;
  std::vector<ReportStep> steps_;
  std::vector<ReportLayer> layers_;
};

}  // namespace nacre::tools
