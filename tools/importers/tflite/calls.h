// Calls converts graphs that operators call (control.cc), and keeps the lists that loops fill as rows (rows.cc).
#pragma once

#include "tools/importers/tflite/tensors.h"

namespace nacre::tools::tflite {

class Importer;
class Reader;
struct Scope;

struct Run {  // rows first to first + count - 1 of a value, along axis 0
  ValueId of;
  int64_t first, count;
};
struct Rows {  // rows of a tensor, run after run; no node has joined them to one value yet
  std::vector<Run> runs;
  std::vector<int64_t> dims;
};

struct Argument {  // an argument or a result of a graph that is called
  ValueId value = kNone;
  Rows rows = {};  // used if there is no value
};

class Calls {
 public:
  Calls(Importer& importer, Reader& reader, Scope& scope) : importer_(importer), reader_(reader), scope_(scope) {}

  // control.cc
  std::vector<Argument> arguments(const Operation& op, size_t first);  // the operator's inputs from `first` on
  std::vector<Argument> call(const Operation& op, int graph, const std::vector<Argument>& arguments);
  void give(const Operation& op, const std::vector<Argument>& results);  // sets the outputs

  // rows.cc
  bool is_empty(const Operation& op, size_t i) const;          // true if input i has no rows
  std::optional<Rows> rows_of(const Operation& op, size_t i);  // nullopt for a single number
  void define_rows(const Operation& op, Rows rows);            // makes output 0 these rows
  ValueId cut_rows(Operation& op, const Run& run);
  ValueId join_rows(int tensor);  // joins the rows of a tensor to one value

 private:
  void bind(const Operation& op, int tensor, const Argument& argument);
  void check_row(const Operation& op, const Value& declared, const Run& run) const;
  void check_alike(const Operation& op, const Value& declared, const Value& found) const;

  Importer& importer_;
  Reader& reader_;
  Scope& scope_;
  int64_t called_operators_ = 0;
};

// append() adds rows begin to begin + size - 1 of `from` after those of `to`. none_like() has no rows, and the same
// dims otherwise.
void append(Rows& to, const Rows& from, int64_t begin, int64_t size);
Rows none_like(const Rows& rows);
bool is_same_but_for_rows(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

}  // namespace nacre::tools::tflite
