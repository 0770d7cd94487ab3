// Values of the stream region, which one run leaves for the next (variables.cc).
#pragma once

#include "tools/importers/tflite/tensors.h"

namespace nacre::tools::tflite {

class Importer;

class Variables {
 public:
  explicit Variables(Importer& importer) : importer_(importer) {}

  ValueId named(const Operation& op, int like);  // of the handle that is input 0, as tensor `like` is
  // Operand i of a loop over time, which the file keeps in a variable. `coded`: with its quantizer.
  ValueId state(const Operation& op, size_t i, std::vector<int64_t> dims, bool coded);
  ValueId stream(const std::string& name, std::vector<int64_t> dims);  // int32
  void store(ValueId x, ValueId s);                                    // a step: s is x, for the next run

 private:
  ValueId add(Value v, const std::string& name);

  Importer& importer_;
  std::map<std::string, ValueId> named_;
};

}  // namespace nacre::tools::tflite
