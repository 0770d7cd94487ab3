// Makes the four lists of the rewrite. They hold TensorFlow's op names, as its source has them for a type and an
// edition, with the user's edits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/tensor.h"

namespace nacre::tools {

// allow: fast and safe in 16 bits. infer: safe unless it depends on a denied op. deny: dangerous in 16 bits, and for
// later ops. clear: harmless, because it moves, picks, compares or the like.
enum class RewriteList : uint8_t { kUnlisted, kAllow, kInfer, kDeny, kClear };

// Values of TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_LEVEL.
enum class RewriteLevel : uint8_t {
  kStandard,
  kTensorCoresOnly,   // the infer, deny and clear lists are empty
  kUnsafeForceAll,    // every float32 node that is not preserved is ALLOW
  kTreatInferAsDeny,  // the infer list joins the deny list
};

struct ListEdit {
  std::vector<std::string> add = {}, remove = {};
};

struct ListEdits {
  ListEdit allow = {}, infer = {}, deny = {}, clear = {};
};

using RewriteLists = std::map<std::string, RewriteList, std::less<>>;  // by op; an op on no list is absent

// Returns the lists. TensorFlow 1.15's lists knew float16 only, and serve bfloat16 unchanged. Throws Error if an edit
// names an unknown op, puts an op on two lists, or removes it from a list that lacks it. Throws too if TensorFlow
// refuses or ignores the level.
RewriteLists rewrite_lists(ElementType type, bool tf2, RewriteLevel level, const ListEdits& edits);

const char* name_of(RewriteList list);    // "allow"; kUnlisted gives "-"
const char* name_of(RewriteLevel level);  // as TensorFlow spells it; kStandard gives ""

}  // namespace nacre::tools
