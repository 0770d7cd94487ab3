// Reads a network in the forms in which Keras writes one.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tools/importers/importer.h"

namespace nacre::tools {

Graph import_keras_archive(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});
Graph import_keras_hdf5(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});
Graph import_keras_json(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options = {});

// Returns the path of the weights beside a configuration, or of the configuration beside weights; "" if there is none.
std::string keras_companion(const std::string& path, bool weights);

}  // namespace nacre::tools
