// The four lists of the rewrite: TensorFlow's op names, as its source has them for a type and an edition, then edited.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/tensor.h"

namespace nacre::tools {

// allow  fast and safe in 16 bits: always converted      infer  safe unless something before it is denied
// deny   dangerous in 16 bits, and for what follows      clear  moves, picks or compares: harmless
enum class RewriteList : uint8_t { kUnlisted, kAllow, kInfer, kDeny, kClear };

// TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_LEVEL.
enum class RewriteLevel : uint8_t {
  kStandard,
  kTensorCoresOnly,   // the infer, deny and clear lists are empty
  kUnsafeForceAll,    // every float32 node is ALLOW
  kTreatInferAsDeny,  // the infer list joins the deny list
};

struct ListEdit {
  std::vector<std::string> add = {}, remove = {};
};

struct ListEdits {
  ListEdit allow = {}, infer = {}, deny = {}, clear = {};
};

using RewriteLists = std::map<std::string, RewriteList, std::less<>>;  // op -> its list; an op on no list is absent

// The lists of 1.15 knew float16 only: they serve bfloat16 unchanged. Throws Error where an edit names an op that is
// unknown, ends on two lists, or is removed from a list that has it not, and where TensorFlow refuses or ignores the
// level.
RewriteLists rewrite_lists(ElementType type, bool tf2, RewriteLevel level, const ListEdits& edits);

const char* name_of(RewriteList list);    // "allow"; kNone: "-"
const char* name_of(RewriteLevel level);  // as TensorFlow spells it; kStandard: ""

}  // namespace nacre::tools
