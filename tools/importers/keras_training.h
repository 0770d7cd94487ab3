// What a Keras file says of its training: the loss and the optimizer that the model was compiled with, the optimizer's
// state. Private to tools/importers/keras*.cc.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/graph/graph.h"
#include "tools/importers/keras.h"

namespace nacre::tools::keras {

// A number per element of a parameter that an optimizer keeps: its name in a training model, and those that the
// versions of Keras give it.
struct Moment {
  const char* name;
  std::vector<const char*> in_keras;
};

class SavedTraining {
 public:
  SavedTraining() = default;
  SavedTraining(const Json& compiled, const Hdf5File& file);  // `compiled`: null where the file does not say it

  // Keras's order of the variables that train, by which .keras files tell what belongs to which.
  bool wants_order() const { return known_ && !moments_.empty() && !placed_.empty(); }
  void set_order(const std::vector<std::string>& variables);
  // A layer that has weights: what of its loss is of the weights themselves.
  void add_layer(const std::string& class_name, const std::string& path, const Json& config);

  struct Kept {
    std::string name;  // of the moment
    std::vector<float> numbers;
  };
  std::vector<Kept> moments_of(const std::string& variable, const std::vector<int64_t>& dims) const;

  // All of it, with the moments of parameters by their names. `layers`: those that have a matrix.
  SourceTraining finish(std::map<std::string, std::map<std::string, std::vector<float>>> moments,
                        const std::set<std::string>& layers);
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void read_loss(const Json& loss);
  void read_optimizer(const std::string& name, const Json& config);
  std::string read_loss_scale();
  void read_state();
  const Hdf5Dataset* find_by_name(const std::string& variable, const Moment& moment) const;
  void note(const std::string& what);

  const Hdf5File* file_ = nullptr;
  SourceTraining said_;
  std::vector<Moment> moments_;                      // of the optimizer
  bool scheduled_ = false;                           // the learning rate is none
  std::map<std::string, const Hdf5Dataset*> named_;  // by what stands behind the optimizer's name
  std::vector<const Hdf5Dataset*> placed_;           // of .keras files, in order
  std::map<std::string, size_t> order_;              // place of a variable among those that train
  std::map<std::string, float> decays_;              // by layer: what of its matrix its gradient has, 2 l2
  std::vector<float> momenta_;                       // of batch norms
  bool known_ = false;                               // whether the optimizer has a form here
  std::vector<std::string> notes_;
};

}  // namespace nacre::tools::keras
