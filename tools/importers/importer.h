// Declares the importers, which turn a network's file (ONNX, TensorFlow Lite or Keras) into a Graph. The graph keeps
// the file's names, order, shapes, quantizers and codes. If operators are not supported, an Error of code
// kUnsupported reports them, with a line per operator. A file that contradicts itself gives an Error of code
// kBadInput.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct ImportOptions {
  int batch = 0;               // 0 keeps the file's batch, or takes 1 if the file leaves it open
  bool batch_if_open = false;  // `batch` applies only if the file leaves the batch open
  bool io_nhwc = false;        // ONNX: inputs and outputs of rank 4 are NHWC, without a transpose at the border
  std::vector<std::string> shapes = {};  // sizes of axes that the file leaves open (shared/open_shape.h)
  bool train = false;                    // the graph is to be trained; the rules for parameters stand below
  bool keep_division = false;            // ONNX: x / c is not replaced by x (1 / c), whose last bit may differ
  std::vector<std::string> ignored =
      {};  // names of settings that the caller allows the import to ignore (shared/ignored_settings.h)
  // an earlier import of this network made the checks that only training needs; this import skips these checks
  bool settled = false;
  std::set<std::string>* met = nullptr;  // receives the names in `ignored` that the file has
  // Keras: patterns for layers that the file freezes and the caller wants to train; a pattern names the layer or a
  // model around it
  std::vector<std::string> unfreeze = {};
  std::string output = {};  // Keras: output that the loss reads, if there are several; "": the file's choice
};

// Rules for parameters if `train` is set. A constant that several operators read is one parameter, whether they read
// it as it is, transposed or reshaped. Examples are a layer that is used twice, and an embedding that is also the
// output layer. Equal constants are separate parameters if the file has a tensor for each. In ONNX an Identity counts
// as such a tensor, because torch's exporter leaves an Identity where it merged equal initializers. In TensorFlow Lite
// the tensors may share a buffer. The file may compute a result from parameters (a slice, a sum). Nodes of the graph
// compute this result if a constant in its place would have another gradient. Without `train` constants are only
// read, so the rules do not apply.

// Import a file of one format. `name` is the file's path: errors print it, and external data are read beside it.
Graph import_tflite(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});
Graph import_onnx(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});

// Returns the paths of the files that hold the external data of an ONNX file. Returns none if `onnx` cannot be parsed.
std::vector<std::string> external_files(std::span<const uint8_t> onnx, const std::string& name);

// Formats of files. sniff() tells them by content, never by extension.
enum class Format { kUnknown, kTflite, kOnnx, kHdf5, kZip, kJson, kLfsPointer, kModel };
Format sniff(std::span<const uint8_t> bytes);
[[noreturn]] void refuse_format(std::span<const uint8_t> bytes, const std::string& path);  // throws: no network's file

// Returns whether the file's first bytes may begin a network's file or a Git LFS pointer, and no model file.
bool is_network(const std::string& path);

// Returns the files that import_network may read: `path` and the external data of an ONNX file. If it exists, the list
// also has the weights file beside a Keras configuration, or the configuration beside an HDF5 file, even if that file
// holds its own.
std::vector<std::string> files_of_network(const std::string& path);

// Reads the file and calls the importer of its format.
Graph import_network(const std::string& path, const ImportOptions& options = {});
// Do the same in two calls: read_network reads the file's bytes, and import_network makes the graph from them.
std::vector<uint8_t> read_network(const std::string& path);
Graph import_network(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& options);

}  // namespace nacre::tools
