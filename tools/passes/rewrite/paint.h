// Declares the painting of the rewrite: nodes, the values that connect them, and one function per step. Private to
// tools/passes/rewrite.
#pragma once

#include <string>
#include <vector>

#include "tools/graph/graph.h"
#include "tools/passes/rewrite/rewrite.h"

namespace nacre::tools {

struct Unit {            // one node of the painting
  std::string name;      // its name in reasons
  std::string op, with;  // TensorFlow's names
  RewriteList list = RewriteList::kUnlisted;
  std::string refusal;   // why it may not be ALLOW (preserved, codes, integers), or ""
  bool foreign = false;  // its values are codes or integers
  Paint paint = Paint::kUnpainted;
  int step = 0;
  std::string reason;

  bool on(RewriteList l) const { return list == l; }
  bool may_allow() const { return refusal.empty() && paint == Paint::kUnpainted; }
};

struct Painting {
  std::vector<Unit> units;                          // per node
  std::vector<std::vector<int>> writers, readers;   // per unit, along values whose type the rewrite may change
  std::vector<bool> gives_output, read_as_float32;  // per unit: writes an output; is read where no type changes
  std::vector<int> order;                           // sorted by first output: independent of the order of nodes
  std::vector<int> after;                           // for step 4: the allow op before an infer or clear unit, or kNone
};

Painting make_painting(const Graph& graph, const RewriteLists& lists, const RewriteOptions& options);

// Steps 2 to 6 and 9 of rewrite.h, in this order. seed_allow returns false if there is no allow op to start from.
// explain_unpainted then gives each node without paint its reason.
bool seed_allow(Painting& p, bool force_all);
void deny_forward(Painting& p);
void allow_between(Painting& p);
void allow_after_allow(Painting& p);
void allow_through_clear(Painting& p);
void allow_casts(const Graph& graph, Painting& p);
void explain_unpainted(const Graph& graph, Painting& p);

// Returns whether the slot's values have the type that the rewrite changes. Step 1 excludes the parameters of a batch
// norm. The operand of a cast has another type.
bool has_rewritten_type(const Node& node, size_t slot);

}  // namespace nacre::tools
