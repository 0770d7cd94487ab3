// Variables makes values of the stream region, memory that one run leaves to the next (variables.cc).
#pragma once

#include "tools/importers/tflite/tensors.h"

namespace nacre::tools::tflite {

class Importer;

class Variables {
 public:
  explicit Variables(Importer& importer) : importer_(importer) {}

  ValueId named(const Operation& op, int like);  // the variable of handle input 0, with the dims and type of `like`
  // Returns operand i of a loop over time, which the file keeps in a variable. `coded` gives it a quantizer.
  ValueId state(const Operation& op, size_t i, std::vector<int64_t> dims, bool coded);
  ValueId stream(const std::string& name, std::vector<int64_t> dims);  // a variable of int32
  void store(ValueId x, ValueId s);                                    // adds a node: s becomes x for the next run

 private:
  ValueId add(Value v, const std::string& name);

  Importer& importer_;
  std::map<std::string, ValueId> named_;
};

}  // namespace nacre::tools::tflite
