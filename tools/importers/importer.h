// Importers. An importer turns a foreign file into a Graph and does nothing else. The graph keeps the file's names,
// order, shapes, layout of inputs and outputs, quantizers and codes. All parts that are not supported are reported at
// once, in one Error of code kUnsupported with a line per operator. A file that contradicts itself gives one Error of
// code kBadInput.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tools/graph/graph.h"

namespace nacre::tools {

struct ImportOptions {
  int batch = 0;               // 0: as in the file, and 1 where the file leaves it open
  bool batch_if_open = false;  // a batch that the file fixes stays, whatever `batch` says
  bool io_nhwc = false;        // ONNX: inputs and outputs of rank 4 are given NHWC, without a transpose at the border
  std::vector<std::string> shapes = {};  // of axes that the file leaves open: shared/open_shape.h
  bool train = false;                    // the graph is to be trained: constants that the file shares stay one, below
  bool keep_division = false;            // ONNX: x / c stays a division, where x (1 / c) may differ in its last bit
  std::vector<std::string> ignored =
      {};  // names of settings that the import goes on without: shared/ignored_settings.h
  // with `train`: what is trained was settled when the training began, and so are settings that only training has
  bool settled = false;
  std::set<std::string>* met = nullptr;  // those of `ignored` that the file has
  // Keras: layers that the file freezes and that are to train, by patterns of their names or of models around them
  std::vector<std::string> unfreeze = {};
  std::string output = {};  // Keras: of several outputs the one that the loss is of; "": as the file says
};

// Rules for parameters where `train` is set. A constant that several operators read, each as it is or transposed or
// reshaped, is one parameter: a layer used twice, an embedding that is the output layer too. Equal constants are
// parameters of their own where the file has a tensor for each: in ONNX also behind an Identity, which torch's
// exporter leaves where it merged equal initializers; in TensorFlow Lite also where they share a buffer. Without
// `train` nothing is kept apart or tied: constants are only read. A result that a file computes of such constants (a
// slice, a sum) takes steps if a constant of its own would have another gradient.

// `name` is the file's path: it stands in errors, and external data are looked for beside it.
Graph import_tflite(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});
Graph import_onnx(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});

// none where it is no whole file
std::vector<std::string> external_files(std::span<const uint8_t> onnx, const std::string& name);

// By content, never by extension.
enum class Format { kUnknown, kTflite, kOnnx, kHdf5, kZip, kJson, kLfsPointer, kModel };
Format sniff(std::span<const uint8_t> bytes);
[[noreturn]] void refuse_format(std::span<const uint8_t> bytes, const std::string& path);  // of no network

// Whether a file begins as a network's does, and not as a model's.
bool is_network(const std::string& path);

// The files that import_network would read: `path`, and where they are there the external data of an ONNX file, the
// weights beside a Keras configuration and the configuration beside Keras weights.
std::vector<std::string> files_of_network(const std::string& path);

// Reads the file and calls the importer of its format.
Graph import_network(const std::string& path, const ImportOptions& options = {});
// In two steps: the file's bytes, and the graph as if these bytes were the file.
std::vector<uint8_t> read_network(const std::string& path);
Graph import_network(std::span<const uint8_t> bytes, const std::string& path, const ImportOptions& options);

}  // namespace nacre::tools
