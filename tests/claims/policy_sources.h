// The rows of claim policy_sources: each is a capability in its source's own words, with its test. Also the networks
// that the tests convert, run and train.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/differentiate/small_networks.h"
#include "tests/differentiate/training_run.h"
#include "tools/base/names.h"
#include "tools/commands/training_arguments.h"
#include "tools/compile/training.h"
#include "tools/model/loaded_model.h"

namespace nacre::test::policy_sources {

// The checks of one test. A test that checks nothing has failed.
class Checks {
 public:
  void that(bool holds, const std::string& what);
  template <class A, class B>
  void same(const A& found, const B& expected, const std::string& what) {
    that(found == expected, what + ": " + text(found) + ", expected " + text(expected));
  }

  int made = 0, failed = 0;
  std::vector<std::string> failures;

 private:
  static std::string text(const std::string& v) { return v; }
  static std::string text(const char* v) { return v; }
  static std::string text(double v);
};

enum class Kind : uint8_t {
  kHad,      // Nacre has it; the test sees its effect
  kRefused,  // Nacre refuses it with the reason, which the test sees
  kDeparts,  // Nacre does what `otherwise` says, which the test sees
};

struct Capability {
  const char* where;  // function or file of the source
  const char* words;  // the source's own words
  void (*test)(Checks&);
  Kind kind = Kind::kHad;
  const char* otherwise = "";
};

struct Source {
  const char* name;
  std::span<const Capability> capabilities;
};
Source keras_policies();
Source keras_map();
Source keras_quantized();
Source keras_fits();
Source keras_float8();
Source tensorflow_policies();
Source tensorflow_rewrite();
Source axon();
Source jmp();
Source fastai();

// ---- Tools of the tests

// The policy options of `nacre convert`. `file` is the text of a policy file.
struct Wish {
  std::string policy = {};
  std::vector<std::string> set = {}, only = {}, except = {};
  std::string file = {};
};
tools::PolicyRequest request_of(const Wish& wish);

// A network that was converted under these policies, read from its file.
class Made {
 public:
  explicit Made(const Wish& wish, tools::Graph network = perceptron(1),
                const tools::Calibration* calibration = nullptr);

  Policy policy(const std::string& layer) const;
  // Returns the types of operands x and w and of the output of the layer's step: "float16 float16 float16"; without w
  // if the step has none. Conversions are not the layer's step.
  std::string types(const std::string& layer) const;
  std::string type(const std::string& tensor) const;
  std::string weights(const std::string& layer) const;  // the name of the operand w of the layer's step
  int count(Op op) const;                               // of steps
  const TensorRecord& record(const std::string& tensor) const;
  std::vector<uint8_t> constant(const std::string& tensor) const;  // bytes in the file
  // Runs the network, which has one float32 input and one float32 output.
  std::vector<float> run(const std::vector<float>& x) const;
  const tools::Graph& graph() const { return graph_; }

 private:
  const tools::Node& step(const std::string& layer) const;

  tools::Graph graph_;
  std::unique_ptr<tools::LoadedModel> model_;
  std::map<std::string, uint32_t> ids_;
};

// The label and the sentence of a refused conversion; "" if it was not refused.
struct Said {
  std::string label, sentence;
};
Said refusal_of(const Wish& wish, const tools::Graph& network = perceptron(1));
void refuses(Checks& checks, const Wish& wish, const std::string& label, const std::string& reason);

// Trains a network under these policies. Its loss scale is the one that --loss-scale and --loss-scale-rule name, or
// that the policies name.
class Training {
 public:
  using Arguments = tools::TrainingArguments;
  explicit Training(const Wish& wish, Arguments arguments = {}, tools::Graph network = perceptron(4));

  // If `odd` is not 0, it is the first number of the batch: an infinity or a NaN.
  Trainer::Report step(float learning_rate = 0x1p-4f, float odd = 0);
  float scale() const { return float(run_.numbers("loss_scale").at(0)); }
  void set_scale(float scale);  // changes the state, as loading a checkpoint does
  // Returns the type of a tensor of the model; "" if there is no such tensor.
  std::string type(const std::string& tensor) const;
  std::string types(const std::string& layer) const;              // of the layer's step in the program of gradients
  std::vector<std::string> state(const std::string& part) const;  // names in the state that contain `part`
  std::vector<float> infer();
  TrainingRun& run() { return run_; }
  const tools::TrainingModel& model() const { return made_; }

 private:
  tools::TrainingModel made_;
  TrainingRun run_;
  int rows_ = 0, width_ = 0;
};
Training::Arguments scaled(const std::string& loss_scale, const std::string& rule);

// Returns the scale of this rule after steps of batches that are finite (F), infinite (I) or NaN (N), at a rate of 0.
float scale_after(const std::string& steps, const std::string& loss_scale, const std::string& rule);

// Returns the scale of this rule after 2000 finite steps that start from `from`. The gradients of the loss are so
// small that a scale of 2^127 leaves them finite.
float grown(const std::string& rule, float from);

// Makes a dense layer "fc" with x [rows, width], w [outputs, width], and a bias if `bias` is not empty.
tools::Graph dense(int width, int outputs, const std::vector<float>& weights, const std::vector<float>& bias = {});

}  // namespace nacre::test::policy_sources
