// Reads the training settings of a Keras file: the loss and the optimizer that the model was compiled with, and the
// optimizer's state. Private to tools/importers/keras.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/graph/source_training.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

// A number that an optimizer keeps for each element of a parameter. It has a name in a training model, and the names
// that versions of Keras give it. `begin` is its initial value.
struct Moment {
  const char* name;
  std::vector<const char*> in_keras;
  float begin = 0;
};

// A class that a file writes as {"class_name": .., "config": {..}}, or only as a name.
struct NamedConfig {
  std::string name;
  Json config = Json::object();
};
NamedConfig named_config(const Json& json, const std::string& what);  // `what` names the value in a refusal
std::string lower_case(std::string text);

// compiled.cc: loss and optimizer in the words of nacre tune, and the settings that nacre tune cannot express. Throws
// JsonError if a value has another type than its key has.
struct Compiled {
  std::string loss, optimizer, schedule;
  float learning_rate = 0, clip_norm = 0, clip_value = 0;
  std::string output_key;       // key of the only output that the loss is for
  int output_place = -1;        // or the output's index; if neither is set, each output has the loss
  bool scheduled = false;       // true if the file's learning rate is a schedule
  bool from_logits = false;     // the loss takes logits; if false, the output of a softmax or a sigmoid
  std::vector<Moment> moments;  // empty if the optimizer is not supported
  std::vector<RefusedSetting> refused;
};
Compiled read_compiled(const Json& compiled, const ImportOptions& options);

class SavedTraining {
 public:
  // `compiled` is null if the file does not have it.
  SavedTraining(const Json& compiled, const Hdf5File& file, const ImportOptions& options);

  // Returns whether set_order() must name the variables that train: .keras files store the state in their order.
  bool wants_order() const { return !compiled_.moments.empty() && !placed_.empty(); }
  void set_order(const std::vector<std::string>& variables);

  struct Kept {
    std::string name;  // name of the moment
    std::vector<float> numbers;
  };
  std::vector<Kept> moments_of(const std::string& variable, const std::vector<int64_t>& dims) const;

  // Returns the index of the output that the loss is for, nullopt if that is refused or not known. `keys` are the keys
  // of outputs that are given as a dictionary, in their order.
  std::optional<size_t> find_output(const std::vector<Binding>& outputs, const std::vector<std::string>& keys);
  // Refuses an output that is not from a softmax or sigmoid although the loss expects that, and the other way round.
  void judge_output(const Graph& graph, const Binding& output);
  // Returns the file's settings and state, without float8. `moments` are those of parameters, by the parameters' names.
  SourceTraining finish(std::map<std::string, std::map<std::string, std::vector<float>>> moments);
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::string read_loss_scale();
  void read_state();
  const Hdf5Dataset* find_by_name(const std::string& variable, const Moment& moment) const;
  std::vector<Kept> begun(const std::vector<int64_t>& dims) const;
  void note(const std::string& what);

  const Hdf5File* file_ = nullptr;
  const ImportOptions& options_;
  Compiled compiled_;
  SourceTraining said_;
  std::map<std::string, const Hdf5Dataset*> named_;  // by the name without the optimizer's
  std::vector<const Hdf5Dataset*> placed_;           // moments in a .keras file, in order
  std::map<std::string, size_t> order_;              // index of a variable among those that train
  std::vector<std::string> notes_;
};

}  // namespace nacre::tools::keras
