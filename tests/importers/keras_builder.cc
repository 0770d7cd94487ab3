#include "tests/importers/keras_builder.h"

#include <zip.h>

namespace nacre::tools {

void write_text(hid_t object, const char* name, const std::vector<std::string>& texts) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const hsize_t count = texts.size();
  const hid_t space = H5Screate_simple(1, &count, nullptr);
  const hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  H5Awrite(attribute, type, pointers.data());
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

namespace {

hid_t type_of(KerasVariable::Type type) {
  if (type == KerasVariable::kInt8) return H5Tcopy(H5T_STD_I8LE);
  if (type == KerasVariable::kInt64) return H5Tcopy(H5T_STD_I64LE);
  const hid_t made = H5Tcopy(H5T_IEEE_F32LE);
  if (type == KerasVariable::kFloat32) return made;
  H5Tset_fields(made, 15, 10, 5, 0, 10);
  H5Tset_size(made, 2);
  H5Tset_ebias(made, 15);
  return made;
}

}  // namespace

void write_variable(hid_t file, const KerasVariable& v) {
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const hid_t space = H5Screate_simple(int(v.dims.size()), v.dims.data(), nullptr);
  const hid_t type = type_of(v.type);
  const hid_t data = H5Dcreate2(file, v.path.c_str(), type, space, links, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, v.numbers.data());
  H5Dclose(data);
  H5Tclose(type);
  H5Sclose(space);
  H5Pclose(links);
}

std::vector<uint8_t> hdf5_bytes(const std::vector<KerasVariable>& variables, const std::function<void(hid_t)>& more) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_core(access, 1 << 12, 0);
  const hid_t file = H5Fcreate("test", H5F_ACC_TRUNC, H5P_DEFAULT, access);
  for (const KerasVariable& v : variables) write_variable(file, v);
  if (more) more(file);
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  std::vector<uint8_t> bytes(size_t(H5Fget_file_image(file, nullptr, 0)));
  H5Fget_file_image(file, bytes.data(), bytes.size());
  H5Fclose(file);
  H5Pclose(access);
  return bytes;
}

std::vector<uint8_t> legacy_keras(const std::string& config,
                                  const std::map<std::string, std::vector<KerasVariable>>& layers,
                                  const std::function<void(hid_t)>& more) {
  std::vector<KerasVariable> all;
  for (const auto& [layer, variables] : layers)
    for (KerasVariable v : variables) {
      v.path = "model_weights/" + layer + "/" + v.path;
      all.push_back(std::move(v));
    }
  return hdf5_bytes(all, [&](hid_t file) {
    write_text(file, "model_config", {config});
    write_text(file, "keras_version", {"2.4.0"});
    const hid_t root = H5Gopen2(file, "model_weights", H5P_DEFAULT);
    std::vector<std::string> names;
    for (const auto& [layer, variables] : layers) {
      names.push_back(layer);
      std::vector<std::string> of;
      for (const KerasVariable& v : variables) of.push_back(v.path);
      const hid_t group = H5Gopen2(root, layer.c_str(), H5P_DEFAULT);
      write_text(group, "weight_names", of);
      H5Gclose(group);
    }
    write_text(root, "layer_names", names);
    H5Gclose(root);
    if (more) more(file);
  });
}

std::vector<uint8_t> zip_bytes(const std::vector<std::pair<std::string, std::vector<uint8_t>>>& members,
                               bool compressed) {
  zip_source_t* source = zip_source_buffer_create(nullptr, 0, 0, nullptr);
  zip_t* archive = zip_open_from_source(source, ZIP_TRUNCATE, nullptr);
  zip_source_keep(source);
  for (const auto& [name, bytes] : members) {
    const zip_int64_t index = zip_file_add(archive, name.c_str(),
                                           zip_source_buffer(archive, bytes.data(), bytes.size(), 0), ZIP_FL_ENC_UTF_8);
    zip_set_file_compression(archive, zip_uint64_t(index), compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  zip_close(archive);
  zip_source_open(source);
  zip_source_seek(source, 0, SEEK_END);
  std::vector<uint8_t> bytes(size_t(zip_source_tell(source)));
  zip_source_seek(source, 0, SEEK_SET);
  zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  zip_source_free(source);
  return bytes;
}

std::vector<uint8_t> keras_archive(const std::string& config, const std::vector<KerasVariable>& variables,
                                   bool compressed) {
  const std::string metadata = R"({"keras_version": "3.15.1"})";
  return zip_bytes({{"metadata.json", {metadata.begin(), metadata.end()}},
                    {"config.json", {config.begin(), config.end()}},
                    {"model.weights.h5", hdf5_bytes(variables)}},
                   compressed);
}

}  // namespace nacre::tools
