// The port of NVIDIA's GPUs: the kernels of the reference, compiled for the device, over the device's memory.
//
//   cuda::Device device;
//   if (!device.open(cuda::load_driver(), cuda::modules())) return device.sentence();
//   const Port* const ports[] = {nullptr, &device.port()};
//   Places places(ports);  ...  places.give(1, device.allocate(places.bytes(1)));
//
// Commands of a segment are put off until its outputs are copied: then all its kernels are one CUDA graph, made by
// the first run of these steps with this number of rows and launched by every later one. Guards are read on the
// device. Products of matrices are made by cuBLASLt (product_step.h), where the caller has it; the rest, and all
// without it, by kernels of this port. A kernel that fails (an index outside of a table) tells it in a word of the
// host's memory, which `finish` reads.
//
// Between hold and release (kernels/kernel.h) copies are put off too: they are nodes of the graph, by way of memory
// that the driver pinned. So a step of training, Trainer::step, is one launch and one wait.
//
// Device times, by events of the driver: time(kGraphs) has them around each graph; time(kSteps) launches the steps one
// by one in place of a graph, with an event between any two. A time then holds what the device waits for the launch of
// the kernel, which the host makes while the one before runs: of a short kernel, little else.
//
// The device is that of the calling thread: open, bind, run and close on one. `open`, `allocate` and the first run of a
// program allocate, in the driver and here, as do first runs that are timed; a later run does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/kernel.h"
#include "engine/numeric/step_sum.h"
#include "ports/cuda/driver.h"
#include "ports/cuda/nccl.h"
#include "ports/cuda/product_step.h"
#include "ports/cuda/step_image.h"

namespace nacre::cuda {

struct Touched;
struct TurnedCodes;

// The kernels of this build, one fat binary for each source file of them; none where it was built without nvcc.
std::span<const void* const> modules();

class Device {
 public:
  struct Counts {
    uint64_t launches = 0;    // of a graph
    uint64_t recordings = 0;  // of a graph, before its first launch
    uint64_t kernels = 0;     // steps in graphs that were launched
    uint64_t products = 0;    // of these, made by cuBLASLt
    uint64_t joined = 0;      // of these, with others in one launch (step_groups.h)
    uint64_t turned = 0;      // of these, that wrote float8 codes and their transpose (turned_codes.h)
  };

  enum class Timing : uint8_t { kNone, kGraphs, kSteps };
  struct Time {
    const char* kernel;  // "kDenseF32"; null: a graph
    float us;
  };

  Device() = default;
  ~Device() { close(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // False: sentence() says why. `driver` may be null. `library`: cuBLASLt, or null; it takes Products::kWorkspace bytes
  // of the device, and where it does not open, all steps run on the port's own kernels. All must outlive the Device.
  bool open(const Driver* driver, std::span<const void* const> modules, int ordinal = 0,
            const CublasLt* library = nullptr);
  // Frees all that allocate gave. First unbind every program that is bound to the port.
  void close();

  static size_t kernel_count();               // of the entries, and of those around products
  static const char* name_of(Kernel kernel);  // "kDenseF32"; null: it is no kernel of the port

  // The port of an open device.
  const Port& port() const { return port_; }
  // Bytes of the device's memory, for Places::give; empty where there are not as many.
  std::span<std::byte> allocate(size_t bytes);
  void release(std::span<std::byte> memory);  // that allocate gave

  // Returns the last failure in one sentence; "" if there was none.
  const char* sentence() const { return sentence_; }
  const char* name() const { return name_; }
  bool has_products() const { return products_.is_open(); }  // cuBLASLt is in use
  // Lets the library multiply float32 as TF32 (product.h), or not, in runs from now on; not unless it is asked for.
  void multiply_as_tf32(bool allowed);
  int architecture() const { return architecture_; }  // 90 of an H200; 0 where none is open
  const Counts& counts() const { return counts_; }

  // Work of the caller's own between runs, put into the port's stream in this order (ports/mpi/device_exchange.h).
  // False: sentence() says why.
  bool make_current();  // before any of it
  Stream stream() const { return stream_; }
  bool put_copy(void* to, const void* from, size_t bytes);  // within the device's memory
  // into = into + from of `count` numbers, as numeric/step_sum.h joins them.
  bool put_join(SumKind kind, void* into, const void* from, uint64_t count);
  bool wait();  // until all of it is done

  // Measures from the next segment on. kNone gives the events back. No times of before remain.
  void time(Timing timing);
  // Times of every segment that finished since time(), in the order in which they ran.
  std::span<const Time> times() const { return times_; }

 private:
  // A step or, of what is held, a copy: its host's end is a piece of pinned memory.
  struct Command {
    enum Kind : uint8_t { kStep, kCopyIn, kCopyOut, kCopyWithin, kFill } kind;
    const StepHead* image = nullptr;  // in the block kPrepared of its program
    uint32_t entry = 0;
    int32_t rows = 0;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
    std::byte value = {};
    bool operator==(const Command&) const = default;
  };
  struct Arrival {  // what is copied to the host's own memory when all has run
    void* to;
    const std::byte* from;
    size_t bytes;
  };
  struct PinnedBlock {
    std::byte* at;
    size_t bytes;
  };
  struct Mark {  // an event that was recorded in this segment
    bool ends;   // what began at the mark before
    const char* kernel;
  };
  struct Recording {
    std::vector<Command> commands;
    GraphExec graph = nullptr;
    DevicePointer memory = 0;  // images of steps that share a launch, and codes turned; 0: neither
    uint64_t products = 0, joined = 0, turned = 0;
  };
  struct Grouping;

  template <size_t kIndex>
  static Code enqueue_entry(const Args& args);
  template <int kCount>
  static Code prepare_image(const Args& args);
  template <size_t... kIndex>
  static std::vector<Kernel> enqueuers(std::index_sequence<kIndex...>);
  template <size_t... kCount>
  static std::vector<Preparation> preparations(std::index_sequence<kCount...>);
  using ScratchOf = size_t (*)(const Words&, const Operands&);
  static size_t scratch_of_entry(size_t index, bool with_products, const Words& words, const Operands& operands);
  template <size_t kIndex, bool kProducts>
  static size_t scratch_bytes(const Words& words, const Operands& operands);
  template <bool kProducts, size_t... kIndex>
  static std::vector<ScratchOf> scratches(std::index_sequence<kIndex...>);
  struct Tables;
  static const Tables& tables();

  Code begin();
  Code finish();
  Code copy(CopyDirection direction, void* to, const void* from, size_t bytes);
  Code fill(void* to, std::byte value, size_t bytes);
  Code hold();
  Code release(bool drop, bool* ran);
  Code hold_copy(CopyDirection direction, void* to, const void* from, size_t bytes);
  std::byte* pinned_piece(size_t bytes);
  Code prepare(const Args& args, int room, StepHead* image);
  Code enqueue(size_t entry, const Args& args);
  bool function_of(size_t entry, Function* function);
  bool find_function(const char* kernel, Function* found);
  Code flush();
  bool launch_graph();
  bool launch_steps();
  bool mark(bool ends, const char* kernel);
  bool read_times();
  void forget_events();
  const Recording* record();
  static size_t image_bytes(const Command& command);
  Grouping group();
  static std::vector<Touched> touched_by(const Command& copy);
  Function function_of_many(const Command& command, bool turned);
  bool allocate_for(Grouping* grouping, DevicePointer* at);
  std::vector<std::byte> images_of(const Grouping& grouping) const;
  bool copy_images(const Grouping& grouping, DevicePointer at);
  bool capture(const Grouping& grouping, Graph* graph, Recording* made);
  template <class Launch>
  bool launch_many(const Grouping& grouping, const Launch& of, DevicePointer memory);
  bool launch_copy(const Command& command);
  bool launch(const Command& command, size_t index, std::span<const TurnedCodes> turned, uint64_t* products);
  bool launch(Function function, uint32_t blocks, void* image);
  bool find_product_kernels(const KernelEntry& entry, const char* name, const StepHead& image);
  Function product_kernel(const std::string& name) const;
  bool launch_product(const KernelEntry& entry, const char* name, StepHead* image, int rows,
                      std::span<const TurnedCodes> turned, bool* is_product);
  bool launch_windows(const char* kernel, const ProductStep& step, std::byte* to, const StepHead& image);
  bool launch_copy(const CopyOfRows& copy, const StepHead& image);
  bool launch_weight_sums(const ProductStep& step, const StepHead& image);
  bool launch_sums(const ProductStep& step, const char* name, StepHead* image);
  void forget_recordings();
  bool succeeded(Result result, const char* what);
  bool refuse(const char* sentence);

  const Driver* driver_ = nullptr;
  DeviceNumber device_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  std::vector<Module> modules_;
  std::vector<Function> functions_;                 // by entry; null: not looked up yet
  std::map<std::string, Function> many_functions_;  // those that were looked up; null: there is none
  std::vector<DevicePointer> allocated_;
  uint32_t* failure_ = nullptr;  // on the host, and where the device sees it
  DevicePointer failure_on_device_ = 0;
  Port port_ = {};
  bool in_segment_ = false, holding_ = false;
  std::vector<Command> commands_;  // of this segment, not launched yet
  std::vector<Recording> recordings_;
  std::vector<Arrival> arrivals_;
  std::vector<PinnedBlock> pinned_;
  size_t pinned_block_ = 0, pinned_taken_ = 0;  // where the next piece comes from
  Products products_;
  bool tf32_ = false;
  std::map<std::string, Function> product_kernels_;  // those that were looked up
  Timing timing_ = Timing::kNone;
  std::vector<Event> events_;  // the first of them at the marks of this segment
  std::vector<Mark> marks_;
  std::vector<Time> times_;
  Counts counts_;
  char name_[64] = "";
  int architecture_ = 0;
  char sentence_[192] = "";
};

}  // namespace nacre::cuda
