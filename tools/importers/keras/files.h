// Reads a network in the forms in which Keras writes one.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/importers/importer.h"
#include "tools/importers/keras/hdf5.h"

namespace nacre::tools {

Graph import_keras_archive(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});
Graph import_keras_hdf5(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});
Graph import_keras_json(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});

namespace keras {

// The contents of a file, for each form that Keras writes.
struct Stored {
  std::string config, version;  // config is the model's; version is that of Keras, "" if the file does not say it
  Hdf5File file;
  uint64_t bytes = 0;  // size of the file with the weights
};

// Read a file, and the one beside it that holds its weights or its configuration.
Stored stored_archive(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);
Stored stored_hdf5(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);
Stored stored_json(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);

// Imports the network. Throws Error, whose sentence begins with `name`, for any contents that are none.
Graph import_stored(const Stored& stored, const std::string& name, const ImportOptions& options);

}  // namespace keras

// Returns the path of the weights beside a configuration, or of the configuration beside weights; "" if there is none.
std::string keras_companion(const std::string& path, bool weights);

}  // namespace nacre::tools
