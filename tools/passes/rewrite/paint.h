// The painting of the rewrite: nodes, the values that connect them, and a step per function. Private to
// tools/passes/rewrite.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"
#include "tools/passes/rewrite/rewrite.h"

namespace nacre::tools {

struct Unit {            // of painting: one node
  std::string name;      // as reasons call it
  std::string op, with;  // TensorFlow's
  RewriteList list = RewriteList::kUnlisted;
  std::string refusal;   // why it may not be ALLOW: preserved, codes, integers; else ""
  bool foreign = false;  // its values are codes or integers
  Paint paint = Paint::kUnpainted;
  int step = 0;
  std::string reason;

  bool on(RewriteList l) const { return list == l; }
  bool may_allow() const { return refusal.empty() && paint == Paint::kUnpainted; }
};

struct Painting {
  std::vector<Unit> units;                          // by node
  std::vector<std::vector<int>> writers, readers;   // of each unit, along values whose type the rewrite may change
  std::vector<bool> gives_output, read_as_float32;  // what a unit writes is an output; is read where no type changes
  std::vector<int> order;                           // by the first output: the same for every order of the nodes
  std::vector<int> after;                           // of step 4: the allow op before an infer or clear unit; kNone
};

Painting make_painting(const Graph& graph, const RewriteLists& lists, const RewriteOptions& options);

// Steps 2 to 9, in this order; what each does stands in rewrite.h and at its definition. The first returns false if
// there is nothing to start from.
bool seed_allow(Painting& p, bool force_all);
void deny_forward(Painting& p);
void allow_between(Painting& p);
void allow_after_allow(Painting& p);
void allow_through_clear(Painting& p);
void allow_casts(const Graph& graph, Painting& p);
void explain_unpainted(const Graph& graph, Painting& p);

// Slots of a node whose values have the type that the rewrite changes: step 1 excludes the parameters of a batch norm,
// and what a cast reads is of another type.
bool has_rewritten_type(const Node& node, size_t slot);

}  // namespace nacre::tools
