// Builds Keras files in memory, by libhdf5 and libzip.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace nacre::tools {

struct KerasVariable {
  enum Type { kFloat32, kFloat16, kInt8, kInt64 };
  std::string path;
  std::vector<hsize_t> dims;
  std::vector<float> numbers;
  Type type = kFloat32;
};

void write_text(hid_t object, const char* name, const std::vector<std::string>& texts);

void write_variable(hid_t file, const KerasVariable& variable);

// Returns an HDF5 file of the variables. `more` writes whatever else the file holds.
std::vector<uint8_t> hdf5_bytes(const std::vector<KerasVariable>& variables,
                                const std::function<void(hid_t)>& more = {});

// Returns a legacy .h5 file with this configuration and, by layer name, the layers' variables.
std::vector<uint8_t> legacy_keras(const std::string& config,
                                  const std::map<std::string, std::vector<KerasVariable>>& layers,
                                  const std::function<void(hid_t)>& more = {});

std::vector<uint8_t> zip_bytes(const std::vector<std::pair<std::string, std::vector<uint8_t>>>& members,
                               bool compressed = false);
std::vector<uint8_t> keras_archive(const std::string& config, const std::vector<KerasVariable>& variables,
                                   bool compressed = false);

}  // namespace nacre::tools
