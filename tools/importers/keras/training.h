// Training settings that a Keras file holds: the loss and the optimizer that the model was compiled with, the
// optimizer's state. Private to tools/importers/keras.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/graph/source_training.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {

// A number per element of a parameter that an optimizer keeps: its name in a training model, those that the versions of
// Keras give it, and what it begins with.
struct Moment {
  const char* name;
  std::vector<const char*> in_keras;
  float begin = 0;
};

// {"class_name": .., "config": {..}}, or a name alone.
struct NamedConfig {
  std::string name;
  Json config = Json::object();
};
NamedConfig named_config(const Json& json, const std::string& what);  // a refusal calls it `what`
std::string lower_case(std::string text);

// compiled.cc: loss and optimizer in the words of nacre tune, and what of them has no form there. A value of another
// type than its key has throws JsonError.
struct Compiled {
  std::string loss, optimizer, schedule;
  float learning_rate = 0, clip_norm = 0, clip_value = 0;
  std::string output_key;       // of the one output that the loss is of
  int output_place = -1;        // or its place among them; neither: the loss is of each
  bool scheduled = false;       // the file's learning rate is no number
  bool from_logits = false;     // the loss takes logits; else what a softmax or a sigmoid gives
  std::vector<Moment> moments;  // none: the optimizer has no form
  std::vector<RefusedSetting> refused;
};
Compiled read_compiled(const Json& compiled, const ImportOptions& options);

class SavedTraining {
 public:
  // `compiled`: null where the file does not say it.
  SavedTraining(const Json& compiled, const Hdf5File& file, const ImportOptions& options);

  // Keras's order of the variables that train, by which .keras files tell what belongs to which.
  bool wants_order() const { return !compiled_.moments.empty() && !placed_.empty(); }
  void set_order(const std::vector<std::string>& variables);

  struct Kept {
    std::string name;  // of the moment
    std::vector<float> numbers;
  };
  std::vector<Kept> moments_of(const std::string& variable, const std::vector<int64_t>& dims) const;

  // The place of the output that the loss is of, none where that is refused or not known. `keys`: of outputs that are
  // given as a dictionary, in their order.
  std::optional<size_t> find_output(const std::vector<Binding>& outputs, const std::vector<std::string>& keys);
  // Refuses an output that is none of a softmax or a sigmoid where the loss takes it for one, and the other way round.
  void judge_output(const Graph& graph, const Binding& output);
  // All of it, with the moments of parameters by their names.
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
  std::map<std::string, const Hdf5Dataset*> named_;  // by what stands behind the optimizer's name
  std::vector<const Hdf5Dataset*> placed_;           // of .keras files, in order
  std::map<std::string, size_t> order_;              // place of a variable among those that train
  std::vector<std::string> notes_;
};

}  // namespace nacre::tools::keras
