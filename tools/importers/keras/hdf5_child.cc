// The child's side of hdf5.h, which calls libhdf5. Errors are return values, because libhdf5 is C and calls back.
#include "tools/importers/keras/hdf5_child.h"

#include <hdf5.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "engine/base/tensor.h"

namespace nacre::tools {
namespace {

constexpr int kMostDepth = 64;

class Sender {
 public:
  Sender(const std::vector<std::string>& skipped, uint64_t most_bytes, int pipe)
      : skipped_(skipped), left_(most_bytes), pipe_(pipe) {}

  void run(std::span<const uint8_t> bytes) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(access, 1 << 16, 0);
    if (H5Pset_file_image(access, const_cast<uint8_t*>(bytes.data()), bytes.size()) < 0)
      return refuse("does not fit into this machine's memory");
    const hid_t file = H5Fopen("image", H5F_ACC_RDONLY, access);
    if (file < 0) return refuse("is damaged: libhdf5 does not open it");
    const hid_t root = H5Gopen2(file, "/", H5P_DEFAULT);
    if (root < 0) return refuse("is damaged: it has no root group");
    if (group(root, "", 0)) put(Hdf5Record::kEnd);
    flush();
  }

 private:
  struct Place {
    Sender* sender;
    const std::string* path;
    int depth;
  };

  void refuse(const std::string& sentence) {
    if (refused_) return;
    refused_ = true;
    put(Hdf5Record::kRefused);
    put(sentence);
    flush();
  }
  bool stop(const std::string& path, const std::string& fact) {
    refuse((path.empty() ? "the root group" : path) + " " + fact);
    return false;
  }

  void put_bytes(const void* data, size_t size) {
    const auto* from = static_cast<const uint8_t*>(data);
    if (out_.size() + size > (1u << 20)) flush();
    if (size > (1u << 20)) return send(from, size);
    out_.insert(out_.end(), from, from + size);
  }
  template <class T>
  void put(T number) {
    put_bytes(&number, sizeof number);
  }
  void put(const std::string& text) {
    put(uint32_t(text.size()));
    put_bytes(text.data(), text.size());
  }
  void flush() {
    send(out_.data(), out_.size());
    out_.clear();
  }
  void send(const uint8_t* from, size_t size) {
    while (size > 0) {
      const ssize_t count = write(pipe_, from, size);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) _exit(1);  // the reader is gone
      from += count;
      size -= size_t(count);
    }
  }

  bool group(hid_t id, const std::string& path, int depth) {
    if (depth > kMostDepth) return stop(path, "is nested too deep");
    if (!attributes(id, path)) return false;
    Place place = {this, &path, depth};
    hsize_t index = 0;
    if (H5Literate(id, H5_INDEX_NAME, H5_ITER_NATIVE, &index, &Sender::link, &place) < 0)
      return refused_ ? false : stop(path, "is damaged: its members cannot be listed");
    return !refused_;
  }

  static herr_t link(hid_t parent, const char* name, const H5L_info_t* info, void* data) {
    const Place& place = *static_cast<Place*>(data);
    return place.sender->member(parent, name, *info, *place.path, place.depth) ? 0 : -1;
  }

  bool member(hid_t parent, const std::string& name, const H5L_info_t& info, const std::string& above, int depth) {
    const std::string path = above.empty() ? name : above + "/" + name;
    if (path.size() > 4096) return stop(above, "has a member whose name is too long");
    if (info.type == H5L_TYPE_EXTERNAL) return stop(path, "is a link into another file, which is not followed");
    if (info.type != H5L_TYPE_HARD) return stop(path, "is a link that is not followed");
    if (depth == 0 && std::find(skipped_.begin(), skipped_.end(), name) != skipped_.end()) return true;
    if (++objects_ > kMostHdf5Objects) return stop(path, "is one object too many");
    const hid_t object = H5Oopen(parent, name.c_str(), H5P_DEFAULT);
    if (object < 0) return stop(path, "is damaged: it does not open");
    H5O_info_t what;
    bool good = H5Oget_info(object, &what) >= 0 || stop(path, "is damaged: it does not say what it is");
    if (good && what.type == H5O_TYPE_GROUP) {
      good = open_.insert(what.addr).second || stop(path, "holds itself");
      good = good && group(object, path, depth + 1);
      open_.erase(what.addr);
    } else if (good && what.type == H5O_TYPE_DATASET) {
      good = dataset(object, path);
    }
    H5Oclose(object);
    return good;
  }

  // ---- Attributes of groups that are text, of fixed or variable length, one or a list. Others are not sent. ----

  bool attributes(hid_t id, const std::string& path) {
    hsize_t index = 0;
    Place place = {this, &path, 0};
    if (H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_NATIVE, &index, &Sender::attribute_of, &place) < 0)
      return refused_ ? false : stop(path, "is damaged: its attributes cannot be listed");
    return !refused_;
  }
  static herr_t attribute_of(hid_t object, const char* name, const H5A_info_t*, void* data) {
    const Place& place = *static_cast<Place*>(data);
    return place.sender->attribute(object, name, *place.path) ? 0 : -1;
  }

  bool attribute(hid_t object, const std::string& name, const std::string& path) {
    const std::string what = "has an attribute " + name;
    if (++objects_ > kMostHdf5Objects) return stop(path, what + ", one too many");
    const hid_t id = H5Aopen(object, name.c_str(), H5P_DEFAULT);
    if (id < 0) return stop(path, what + " that is damaged");
    const hid_t type = H5Aget_type(id), space = H5Aget_space(id);
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    bool good = true;
    if (H5Tget_class(type) == H5T_STRING && count > 0) {
      const std::vector<std::string> texts =
          H5Tis_variable_str(type) > 0 ? variable_texts(id, type, count) : fixed_texts(id, type, count);
      good = texts.size() == size_t(count) || stop(path, what + " whose text cannot be read");
      if (good) {
        put(Hdf5Record::kText);
        put(path);
        put(name);
        put(uint32_t(texts.size()));
        for (const std::string& text : texts) put(text);
      }
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(id);
    return good;
  }

  bool spend_text(uint64_t bytes, uint64_t count = 1) {
    if (bytes + count * kHdf5TextBytes > text_left_) return false;
    text_left_ -= bytes + count * kHdf5TextBytes;
    return true;
  }

  std::vector<std::string> fixed_texts(hid_t id, hid_t type, hssize_t count) {
    const size_t size = H5Tget_size(type);
    if (size == 0 || size > kMostHdf5Text || uint64_t(count) > kMostHdf5Text / size ||
        !spend_text(size * size_t(count), uint64_t(count)))
      return {};
    std::vector<char> buffer(size * size_t(count));
    if (H5Aread(id, type, buffer.data()) < 0) return {};
    std::vector<std::string> texts;
    for (size_t i = 0; i < size_t(count); ++i)
      texts.emplace_back(buffer.data() + i * size, strnlen(buffer.data() + i * size, size));
    return texts;
  }

  std::vector<std::string> variable_texts(hid_t id, hid_t, hssize_t count) {
    if (count > 1'000'000) return {};
    const hid_t type = H5Aget_type(id);  // the type in the file, so that no character set is converted
    std::vector<char*> pointers(size_t(count), nullptr);
    std::vector<std::string> texts;
    if (H5Aread(id, type, pointers.data()) >= 0)
      for (const char* text : pointers) {
        const size_t size = text == nullptr ? 0 : strnlen(text, kMostHdf5Text);
        if (!spend_text(size)) break;
        texts.emplace_back(text == nullptr ? "" : text, size);
      }
    H5Tclose(type);
    return texts;
  }

  // ---- Datasets ----

  bool dataset(hid_t id, const std::string& path) {
    const hid_t type = H5Dget_type(id), space = H5Dget_space(id), made = H5Dget_create_plist(id);
    hid_t memory = -1;
    const ElementType element = element_of(id, type, &memory);
    bool good = true;
    if (element != ElementType::kNone && H5Sget_simple_extent_type(space) != H5S_NULL)
      good = plain_storage(made, path) &&
             send_dataset(id, path, element, memory, space, H5Tequal(type, memory) > 0 ? offset_of(id, made) : 0);
    if (memory >= 0) H5Tclose(memory);
    H5Pclose(made);
    H5Sclose(space);
    H5Tclose(type);
    return good;
  }

  bool plain_storage(hid_t made, const std::string& path) {
    if (H5Pget_external_count(made) > 0) return stop(path, "lies in another file, which is not read");
    const H5D_layout_t layout = H5Pget_layout(made);
    if (layout == H5D_VIRTUAL) return stop(path, "is a virtual dataset, which is not read");
    for (int i = 0; layout == H5D_CHUNKED && i < H5Pget_nfilters(made); ++i) {
      unsigned flags = 0, config = 0;
      size_t values = 0;
      const H5Z_filter_t filter = H5Pget_filter2(made, unsigned(i), &flags, &values, nullptr, 0, nullptr, &config);
      if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32)
        return stop(path, "is compressed by filter " + std::to_string(int(filter)) + ", only deflate is known");
    }
    return true;
  }

  static uint64_t offset_of(hid_t id, hid_t made) {
    const haddr_t offset = H5Pget_layout(made) == H5D_CONTIGUOUS ? H5Dget_offset(id) : HADDR_UNDEF;
    return offset == HADDR_UNDEF ? 0 : uint64_t{offset};
  }

  // Returns the type in which a dataset is sent, and sets *memory to libhdf5's type for it. kNone means that it is not
  // sent. Opaque pairs of bytes are bfloat16 if they have an attribute dtype, as Keras writes it.
  static ElementType element_of(hid_t id, hid_t type, hid_t* memory) {
    const size_t size = H5Tget_size(type);
    const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    switch (H5Tget_class(type)) {
      case H5T_FLOAT:
        if (size == 4) return *memory = H5Tcopy(H5T_IEEE_F32LE), ElementType::kFloat32;
        if (size == 8) return *memory = H5Tcopy(H5T_IEEE_F64LE), ElementType::kFloat64;
        if (size != 2 || H5Tget_ebias(type) != 15) return ElementType::kNone;
        *memory = H5Tcopy(type);
        H5Tset_order(*memory, H5T_ORDER_LE);
        return ElementType::kFloat16;
      case H5T_INTEGER:
        if (size == 1) {
          *memory = H5Tcopy(is_signed ? H5T_STD_I8LE : H5T_STD_U8LE);
          return is_signed ? ElementType::kInt8 : ElementType::kUint8;
        }
        *memory = H5Tcopy(size <= 4 ? H5T_STD_I32LE : H5T_STD_I64LE);  // numbers beyond that type saturate
        return size <= 4 ? ElementType::kInt32 : ElementType::kInt64;
      case H5T_OPAQUE:
        if (size != 2 || H5Aexists(id, "dtype") <= 0) return ElementType::kNone;
        *memory = H5Tcopy(type);
        return ElementType::kBfloat16;
      default: return ElementType::kNone;
    }
  }

  bool send_dataset(hid_t id, const std::string& path, ElementType element, hid_t memory, hid_t space,
                    uint64_t offset) {
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0 || rank > kMostHdf5Rank) return stop(path, "has more than 8 axes");
    hsize_t dims[kMostHdf5Rank] = {};
    H5Sget_simple_extent_dims(space, dims, nullptr);
    uint64_t size = H5Tget_size(memory);
    for (int i = 0; i < rank; ++i)
      if (__builtin_mul_overflow(size, uint64_t{dims[i]}, &size)) size = UINT64_MAX;
    if (size > left_) return stop(path, "declares more numbers than a file of this size may hold");
    left_ -= size;
    allow_time(size);
    std::vector<uint8_t> bytes(size);
    if (size > 0 && H5Dread(id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0)
      return stop(path, "is damaged: its numbers cannot be read");
    put(Hdf5Record::kDataset);
    put(path);
    put(uint8_t(element));
    put(uint8_t(rank));
    for (int i = 0; i < rank; ++i) put(uint64_t{dims[i]});
    put(offset);
    put(size);
    put_bytes(bytes.data(), bytes.size());
    return true;
  }

  // Adds time for each byte to be read, because a small file may hold much compressed data.
  void allow_time(uint64_t size) {
    read_ += size;
    rlimit time = {};
    if (getrlimit(RLIMIT_CPU, &time) != 0) return;
    time.rlim_cur = std::min<rlim_t>(time.rlim_max, kHdf5Seconds + read_ / kHdf5BytesPerSecond);
    setrlimit(RLIMIT_CPU, &time);
  }

  const std::vector<std::string>& skipped_;
  uint64_t read_ = 0;
  uint64_t left_, text_left_ = kMostHdf5Text;
  int pipe_;
  uint32_t objects_ = 0;
  bool refused_ = false;
  std::vector<uint8_t> out_;
  std::set<haddr_t> open_;  // groups around the one that is read
};

}  // namespace

void send_hdf5(std::span<const uint8_t> bytes, const std::vector<std::string>& skipped, uint64_t most_bytes, int pipe) {
  Sender(skipped, most_bytes, pipe).run(bytes);
}

}  // namespace nacre::tools
