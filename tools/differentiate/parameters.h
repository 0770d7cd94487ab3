// Parameters of a network are the constants that training may change. They move from the file's weights into the state
// block, where the file's numbers are their first values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/differentiate/options.h"
#include "tools/graph/graph.h"

namespace nacre::tools {

// Moves the parameters that `options` names into the region state. Codes of a quantized file become real numbers.
// Throws if there is none to train, if a pattern matches no layer with parameters, or if a layer that trains shares a
// parameter with one that does not.
void make_parameters(Graph& graph, const TrainedParameters& options);

// Returns the layers that `options` names and that have a node which `takes` accepts, in the order of the nodes.
// Throws if a pattern matches none, or options.last_layers is too large. `what` is what the error says nodes lack.
std::vector<int> layers_to_train(const Graph& graph, const TrainedParameters& options,
                                 const std::function<bool(const Node&)>& takes, const char* what);

// Throws if one of options.layers is not a valid pattern.
void require_patterns(const TrainedParameters& options);

// Returns, per value, the stored value of which it is a form. That is the constant or state value itself, or the one
// from which transposes and reshapes make it. Layers read one parameter in such forms. kNone for all other values.
std::vector<ValueId> stored_values(const Graph& graph);

// Returns the numbers as elements of a float type, each rounded to the nearest.
std::vector<uint8_t> stored_as(ElementType type, const std::vector<float>& numbers);

// Evaluates steps that read only constants without quantizers. Their outputs become constants, unless they are outputs.
void store_frozen_forms(Graph& graph);

// Copies the statistics of a batch norm if the file stores them once for other readers too (ones for scale and
// variance). Then no other step reads them. A norm that is applied twice shares all four operands and stays one.
void separate_statistics(Graph& graph);

// These throw for networks that cannot be trained under their policies. refuse_quantized_forms: a layer that trains
// under a quantizing policy reads its weights as a form of another layer's, whose codes do not fit.
// refuse_shared_codes, for training in codes: layers share weights or a bias, but not their scales. refuse_fits: a
// policy fits codes to samples, which needs the weights as they are after training.
void refuse_quantized_forms(const Graph& graph);
void refuse_shared_codes(const Graph& graph, const TrainedParameters& options);
void refuse_fits(const Graph& graph);

// Returns, per node, whether the output options.output depends on it. True for all nodes if that is "".
std::vector<bool> reaching(const Graph& graph, const TrainedParameters& options);

// Lists the constants that training does not change because no step reads them as a parameter: factors, slopes,
// subtrahends. Only real constants of several numbers, variables, and those that keep their steps are listed. Fixed or
// frozen constants, and constants of layers that `options` freezes, are not. An entry reads "gamma (mul)". Entries
// follow the nodes. Empty if only biases train. Call it before make_parameters.
std::vector<std::string> untrained_constants(const Graph& graph, const TrainedParameters& options);
// Returns "not trained: gamma (mul), slope (prelu)" with at most four names. "" if there is none.
std::string not_trained_text(const std::vector<std::string>& constants);

// Returns whether a node reads a value that the source freezes. `stored` is stored_values().
bool reads_frozen(const Graph& graph, const Node& node, const std::vector<ValueId>& stored);

// Layers whose weights and statistics the source does not train, and totals over all layers that have any. Find them
// before make_parameters.
struct FrozenLayers {
  std::vector<std::string> names;
  size_t of_layers = 0;
  uint64_t weights = 0, of_weights = 0;  // counts of numbers
};
FrozenLayers frozen_layers(const Graph& graph);
// Returns "frozen by the file: 12 of 20 layers, 81 % of the weights". "" if no layer is frozen.
std::string frozen_text(const FrozenLayers& found);

// Returns the two texts, without those that are empty.
std::vector<std::string> untrained_lines(const FrozenLayers& frozen, const std::vector<std::string>& constants);

// Moves the running statistics of batch norms whose scale or bias is trained into state, where inference reads them.
// A trained layer's norm that has neither scale nor bias moves its statistics too. Statistics that the source freezes
// stay constants. Does nothing if options.frozen_batch_norm is set.
void make_statistics(Graph& graph, const TrainedParameters& options);

// Returns whether a pattern (RE2) matches the whole name of the layer. True if there is no pattern.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace nacre::tools
