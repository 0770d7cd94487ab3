#include "tools/passes/rewrite/lists.h"

#include <algorithm>
#include <sstream>

#include "tools/base/error.h"
#include "tools/base/nearest.h"
#include "tools/base/option_id.h"
#include "tools/graph/op_facts.h"

namespace nacre::tools {
namespace {

constexpr RewriteList N = RewriteList::kUnlisted, A = RewriteList::kAllow, I = RewriteList::kInfer,
                      D = RewriteList::kDeny, C = RewriteList::kClear;

// Ops with the list on which each of three editions of
// tensorflow/core/grappler/optimizers/auto_mixed_precision_lists.h has them (N if on none):
//
//   tf1       release 1.15, CUDA >= 9.1: WhiteList, GrayList, BlackList, ClearList
//   float16   today's AutoMixedPrecisionListsFp16 on a GPU, CUDA >= 9.1, cuDNN >= 8
//   bfloat16  today's AutoMixedPrecisionListsMkl (oneDNN)
struct Group {
  RewriteList tf1, float16, bfloat16;
  const char* ops;
};

constexpr Group kGroups[] = {
    {A, A, A,
     "BatchMatMul BatchMatMulV2 Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 "
     "Conv3DBackpropInputV2 MatMul"},
    {A, A, N,
     "BlockLSTM BlockLSTMGrad Conv3DBackpropFilter Conv3DBackpropInput CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 "
     "CudnnRNNBackpropV3 CudnnRNNV2 CudnnRNNV3 GRUBlockCell GRUBlockCellGrad LSTMBlockCell LSTMBlockCellGrad"},
    {N, A, A, "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput Einsum"},
    {N, A, N,
     "BlockLSTMV2 BlockLSTMGradV2 FastUnsortedSegmentMax FusedConv2DBiasActivation FusedSparseConvGpuV2 Mha MhaV2 Pmlp "
     "Tmlp TmlpV2 TmlpV3"},
    {N, N, A, "FusedPadConv2D"},
    {I, I, I,
     "Add AddN AddV2 AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad BiasAdd BiasAddGrad BiasAddV1 Elu EluGrad Erf Erfc "
     "FloorDiv FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 Inv LeakyRelu LeakyReluGrad "
     "Mul Prod RealDiv Reciprocal Sigmoid SigmoidGrad Softplus SoftplusGrad Sqrt Sub Tanh TanhGrad"},
    {N, I, I, "_FusedBatchNormEx Selu SeluGrad Softsign SoftsignGrad"},
    {N, N, I, "Rsqrt Square SquaredDifference"},
    {D, I, I, "Log Log1p LogSoftmax Softmax"},
    {D, D, I, "Mean Sum"},
    {D, D, D, "Exp Expm1 L2Loss Pow SaveV2 SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"},
    {C, C, C,
     "Abs ArgMax ArgMin BatchToSpace BatchToSpaceND BroadcastTo Ceil CheckNumerics ClipByValue Concat ConcatV2 "
     "DepthToSpace DynamicPartition DynamicStitch EnsureShape Enter Equal Exit ExpandDims Fill Floor Gather GatherNd "
     "GatherV2 Greater GreaterEqual Identity IsFinite IsInf IsNan Less LessEqual Max MaxPool MaxPool3D MaxPool3DGrad "
     "MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradV2 MaxPoolV2 Maximum Merge Min Minimum MirrorPad "
     "MirrorPadGrad Neg NextIteration NotEqual OnesLike Pack Pad PadV2 PreventGradient Rank Relu Relu6 Relu6Grad "
     "ReluGrad Reshape ResizeNearestNeighbor ResizeNearestNeighborGrad Reverse ReverseSequence ReverseV2 Round Select "
     "Shape ShapeN Sign Slice Snapshot SpaceToBatch SpaceToBatchND SpaceToDepth Split SplitV Squeeze StopGradient "
     "StridedSlice StridedSliceGrad Switch Tile TopK TopKV2 Transpose Where ZerosLike"},
    {C, C, N, "IdentityN MaxPool3DGradGrad OneHot Size"},
    {C, N, N,
     "StackPopV2 StackPushV2 TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayReadV3 TensorArrayScatterV3 "
     "TensorArraySplitV3 TensorArrayWriteV3"},
    {N, C, C,
     "SelectV2 TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListFromTensor TensorListGather "
     "TensorListGetItem TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListScatter "
     "TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack Unpack"},
    {N, N, C, "ResizeBilinear ScatterNd StatelessWhile While"},
};

// Adds TensorFlow's names of ops from OpFacts. Some of them are on no list, and an edit may put them on one.
void add_names_of_nodes(std::vector<std::string>& known) {
  for (const OpRule* rule : all_rules()) {
    const OpFacts& facts = facts_of(rule->op);
    if (facts.tensorflow != nullptr) known.emplace_back(facts.tensorflow);
    for (const char* name : facts.tensorflow_functions)
      if (*name != 0) known.emplace_back(name);
    for (const TensorflowName& name : facts.tensorflow_sources) known.emplace_back(name.name);
  }
}

struct NamedEdit {
  RewriteList list;
  const ListEdit* edit;
};

std::string list_option(RewriteList list, const char* action) {
  return option(std::string(name_of(list)) + "list-" + action);
}

std::string op_remedy(const std::string& op, const std::vector<std::string>& known) {
  const std::string near = alternatives(nearest_names(op, known));
  return near.empty() ? "names are TensorFlow's: Conv2D, MatMul, Softmax" : "did you mean " + near + "?";
}

void check_known(const std::string& op, const std::string& place, const std::vector<std::string>& known) {
  if (!std::binary_search(known.begin(), known.end(), op))
    throw Error(kUsage, place, in_quotes(op) + " is no op of the rewrite's lists", op_remedy(op, known));
}

void remove_ops(RewriteLists& lists, const NamedEdit& e, const std::vector<std::string>& known) {
  for (const std::string& op : e.edit->remove) {
    const std::string place = list_option(e.list, "remove");
    check_known(op, place, known);
    if (std::find(e.edit->add.begin(), e.edit->add.end(), op) != e.edit->add.end())
      throw Error(kUsage, place, op + " is added by " + list_option(e.list, "add") + " as well", "give one of the two");
    const auto at = lists.find(op);
    const RewriteList list = at == lists.end() ? RewriteList::kUnlisted : at->second;
    const std::string where = list == RewriteList::kUnlisted ? "no" : std::string("the ") + name_of(list);
    if (list != e.list)
      throw Error(kUsage, place, op + " is not on the " + name_of(e.list) + " list", "it is on " + where + " list");
    lists.erase(at);
  }
}

void add_ops(RewriteLists& lists, const NamedEdit& e, const std::vector<std::string>& known) {
  for (const std::string& op : e.edit->add) {
    const std::string place = list_option(e.list, "add");
    check_known(op, place, known);
    const auto [at, added] = lists.emplace(op, e.list);
    if (!added && at->second != e.list)
      throw Error(kUsage, place, op + " would be on two lists, " + name_of(at->second) + " and " + name_of(e.list),
                  "add " + list_option(at->second, "remove") + " " + op);
  }
}

// Throws if the level cannot be used, or contradicts an edit. TensorFlow refuses UNSAFE_FORCE_ALL in the oneDNN modes,
// and its lists of bfloat16 ignore TENSOR_CORES_ONLY.
void check_level(ElementType type, RewriteLevel level, const ListEdits& edits) {
  const std::string place = option("rewrite-level", name_of(level));
  const bool bfloat16 = type == ElementType::kBfloat16;
  if (bfloat16 && level == RewriteLevel::kUnsafeForceAll)
    throw Error(kUsage, place, "not with bfloat16: TensorFlow refuses it", "use the policy bfloat16 for all layers");
  if (level != RewriteLevel::kTensorCoresOnly) return;
  if (bfloat16)
    throw Error(kUsage, place, "has no effect on TensorFlow's bfloat16 lists", "use TREAT_INFER_AS_DENY, or float16");
  for (const NamedEdit& e : {NamedEdit{I, &edits.infer}, NamedEdit{D, &edits.deny}, NamedEdit{C, &edits.clear}})
    if (!e.edit->add.empty() || !e.edit->remove.empty())
      throw Error(kUsage, place, std::string("leaves the ") + name_of(e.list) + " list empty, but it is edited",
                  "give one of the two");
}

void apply_level(RewriteLists& lists, RewriteLevel level) {
  if (level == RewriteLevel::kTensorCoresOnly)
    std::erase_if(lists, [](const auto& entry) { return entry.second != RewriteList::kAllow; });
  if (level == RewriteLevel::kTreatInferAsDeny)
    for (auto& [op, list] : lists)
      if (list == RewriteList::kInfer) list = RewriteList::kDeny;
}

}  // namespace

const char* name_of(RewriteList list) {
  constexpr const char* kNames[] = {"-", "allow", "infer", "deny", "clear"};
  return kNames[size_t(list)];
}

const char* name_of(RewriteLevel level) {
  constexpr const char* kNames[] = {"", "TENSOR_CORES_ONLY", "UNSAFE_FORCE_ALL", "TREAT_INFER_AS_DENY"};
  return kNames[size_t(level)];
}

RewriteLists rewrite_lists(ElementType type, bool tf2, RewriteLevel level, const ListEdits& edits) {
  check_level(type, level, edits);
  const auto edition = !tf2 ? &Group::tf1 : type == ElementType::kBfloat16 ? &Group::bfloat16 : &Group::float16;
  RewriteLists lists;
  std::vector<std::string> known;
  for (const Group& group : kGroups) {
    std::istringstream ops(group.ops);
    for (std::string op; ops >> op;) {
      known.push_back(op);
      if (group.*edition != RewriteList::kUnlisted) lists.emplace(op, group.*edition);
    }
  }
  add_names_of_nodes(known);
  std::ranges::sort(known);
  const NamedEdit named[] = {{A, &edits.allow}, {I, &edits.infer}, {D, &edits.deny}, {C, &edits.clear}};
  for (const NamedEdit& e : named) remove_ops(lists, e, known);
  for (const NamedEdit& e : named) add_ops(lists, e, known);
  apply_level(lists, level);
  return lists;
}

}  // namespace nacre::tools
