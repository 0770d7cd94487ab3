// Parameters of a network: the constants that training may change. They move from the file's weights into the state
// block, with the file's numbers as their first value.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Moves the parameters that `options` names into state, in `graph`'s order of nodes. Codes of a quantized file become
// the real numbers they mean. Throws if there is none to train, if a pattern matches no layer with parameters, or if a
// parameter is shared by a layer that trains and one that does not.
void make_parameters(Graph& graph, const TrainedParameters& options);

// The layers that `options` names and that have a node of this kind, in the order of the nodes. Throws if a pattern
// matches none; `what` such nodes have: "parameters".
std::vector<int> layers_to_train(const Graph& graph, const TrainedParameters& options,
                                 const std::function<bool(const Node&)>& takes, const char* what);

// Refuses what is no pattern.
void require_patterns(const TrainedParameters& options);

// By value: the constant or the value in state that it is, or that transposes and reshapes make it of: the forms in
// which layers read one parameter. kNone for what is computed of anything else.
std::vector<ValueId> stored_values(const Graph& graph);

// Numbers as elements of a float type, each rounded to the nearest.
std::vector<uint8_t> stored_as(ElementType type, const std::vector<float>& numbers);

// Forms of constants that are not trained become constants: nothing is left to compute. After make_parameters.
void store_frozen_forms(Graph& graph);

// Statistics are never parameters, and no two norms have them in common: where a file stores equal ones once (ones as
// scale and variance), each norm gets its own. A norm that is applied twice shares all four and stays one.
void separate_statistics(Graph& graph);

// Throws where a layer that trains under a quantizing policy reads its weights as a form of another layer's: codes of
// one are not codes of the other. And, for training in codes, where layers share weights or a bias: their scales are
// not one. And where a policy fits codes to samples: to weights as they are once training is done.
void refuse_quantized_forms(const Graph& graph);
void refuse_shared_codes(const Graph& graph, const TrainedParameters& options);
void refuse_fits(const Graph& graph);

// By node: whether the output that is trained depends on it.
std::vector<bool> reaching(const Graph& graph, const TrainedParameters& options);

// Lists the constants that no training changes, because a step reads them, but not as a parameter: factors, slopes,
// subtrahends. Only real constants of more than one number, and variables, are listed. Fixed or frozen constants, and
// constants of layers that `options` freezes, are not. An entry reads "gamma (mul)"; entries follow the order of the
// nodes. Call it before make_parameters.
std::vector<std::string> untrained_constants(const Graph& graph, const TrainedParameters& options);
// "not trained: gamma (mul), slope (prelu)", at most four; "" of none
std::string not_trained_text(const std::vector<std::string>& constants);

// Whether a node reads what the source freezes. `stored`: stored_values().
bool reads_frozen(const Graph& graph, const Node& node, const std::vector<ValueId>& stored);

// Layers whose weights and statistics the source does not train, of all that have some. Before make_parameters.
struct FrozenLayers {
  std::vector<std::string> names;
  size_t of_layers = 0;
  uint64_t weights = 0, of_weights = 0;  // numbers
};
FrozenLayers frozen_layers(const Graph& graph);
// "frozen by the file: 12 of 20 layers, 81 % of the weights"; "" where none is
std::string frozen_text(const FrozenLayers& found);

// Returns the two texts, without those that are empty.
std::vector<std::string> untrained_lines(const FrozenLayers& frozen, const std::vector<std::string>& constants);

// Moves the running statistics of batch norms whose scale or bias is trained into state, where inference reads them.
// A trained layer's norm that has neither scale nor bias moves its statistics too. Statistics that the source freezes
// stay constants. Does nothing if options.frozen_batch_norm is set.
void make_statistics(Graph& graph, const TrainedParameters& options);

// True if the layer of this name matches one of the patterns (RE2, as a whole) or there is none.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace nacre::tools
