// The port for NVIDIA GPUs: the reference's kernels, compiled for the device, work on the device's memory.
//
// Example:
//   cuda::Device gpu;                                                  // outlives places and programs
//   if (!gpu.open(cuda::load_driver(), cuda::modules())) {
//     std::printf("%s\n", gpu.sentence());
//     return {Code::kPort};
//   }
//   const Port* const ports[] = {nullptr, &gpu.port()};
//   Places places(ports);
//   places.keep(1);                                                    // a Trainer's state stays on the device
//   NACRE_TRY(Trainer::measure(model, "cuda/sm90", kernels, &sizes, {}, &places));
//   NACRE_TRY(Memory::cut(block, sizes, &memory, places.alignment()));
//   NACRE_TRY(places.give(1, gpu.allocate(places.bytes(1))));
//   NACRE_TRY(trainer.bind(model, "cuda/sm90", kernels, memory, nullptr, &places));
//
// Steps of a segment (consecutive steps on this port) are deferred until outputs are copied, then launched as one CUDA
// graph. The first run of these steps with this number of rows records the graph; each later run launches it again.
// Guards are read on the device. cuBLASLt makes products of matrices (product_step.h) if the caller has the library;
// kernels of this port make all else. A kernel that fails (an index outside of a table) writes its code to a word of
// host memory, which `finish` reads.
//
// Between hold and release (kernels/kernel.h) copies are deferred too. They are nodes of the graph and go through
// memory that the driver pinned. So a training step, Trainer::step, is one launch and one wait.
//
// Device times are measured with events of the driver. time(kGraphs) puts events around each graph. time(kSteps)
// launches the steps one by one in place of a graph, with an event between any two. A step's time then includes the
// wait for its launch, which the host makes while the step before runs. For a short kernel it is little else.
//
// The device belongs to the calling thread: open, bind, run and close on one thread. `open`, `allocate`, the first
// run of a program and first timed runs allocate, in the driver and here. Later runs do not.
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

// The kernels of this build, one fat binary per source file. Empty if the build had no nvcc.
std::span<const void* const> modules();

class Device {
 public:
  // Counts since open.
  struct Counts {
    uint64_t launches = 0;    // launches of graphs
    uint64_t recordings = 0;  // recordings of graphs, each before a first launch
    uint64_t kernels = 0;     // steps in graphs that were launched
    uint64_t products = 0;    // of these steps, made by cuBLASLt
    uint64_t joined = 0;      // of these steps, joined with others in one launch (step_groups.h)
    uint64_t turned = 0;      // of these steps, wrote float8 codes and their transpose (turned_codes.h)
  };

  enum class Timing : uint8_t { kNone, kGraphs, kSteps };  // what time() measures
  struct Time {
    const char* kernel;  // "kDenseF32"; null for a graph
    float us;            // microseconds of the device's clock
  };

  Device() = default;
  ~Device() { close(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Opens a GPU. Returns false if it fails; then sentence() says why, and no device is open. `driver`: load_driver();
  // null is refused with a sentence. `modules`: modules(). `ordinal`: number of the GPU, from 0. `library` is cuBLASLt
  // or null. It takes Products::kWorkspace bytes of the device; if it does not open, the port's own kernels run all
  // steps. All arguments must outlive the Device.
  bool open(const Driver* driver, std::span<const void* const> modules, int ordinal = 0,
            const CublasLt* library = nullptr);
  // Frees all memory that `allocate` gave. First unbind every program that is bound to the port.
  void close();

  static size_t kernel_count();               // all device kernels of the port
  static const char* name_of(Kernel kernel);  // "kDenseF32"; null if the port has no such kernel

  // The port of an open device. It stays at this address, so keep the Device in place.
  const Port& port() const { return port_; }
  // Returns bytes of the device's memory, for Places::give, at a multiple of 256. The host must not read or write them.
  // Empty: `bytes` is 0, no device is open, or it has not as many (sentence() says so).
  std::span<std::byte> allocate(size_t bytes);
  void release(std::span<std::byte> memory);  // memory from `allocate`; unbind its programs first

  // Returns the last failure in one sentence; "" if there was none.
  const char* sentence() const { return sentence_; }
  const char* name() const { return name_; }                 // the driver's name of the GPU; "" before the first open
  bool has_products() const { return products_.is_open(); }  // whether cuBLASLt is in use
  // Allows the library to multiply float32 as TF32 (product.h) in later runs, or forbids it. The default is to
  // forbid.
  void multiply_as_tf32(bool allowed);
  int architecture() const { return architecture_; }  // 90 for an H200; 0 if no device is open
  const Counts& counts() const { return counts_; }

  // Work of the caller between runs, put into the port's stream in this order (ports/mpi/device_exchange.h). Returns
  // false if it fails; then sentence() says why.
  bool make_current();  // call this before any such work
  Stream stream() const { return stream_; }
  bool put_copy(void* to, const void* from, size_t bytes);  // copies from device to device memory
  // Joins `count` numbers, into = into + from, as numeric/step_sum.h does.
  bool put_join(SumKind kind, void* into, const void* from, uint64_t count);
  bool wait();  // returns when all this work is done

  // Measures from the next segment on, and drops earlier times. kNone gives the events back.
  void time(Timing timing);
  // Times of every segment that finished since time(), in the order in which the segments ran.
  std::span<const Time> times() const { return times_; }

 private:
  // A step, or a held copy, whose host side is a piece of pinned memory.
  struct Command {
    enum Kind : uint8_t { kStep, kCopyIn, kCopyOut, kCopyWithin, kFill } kind;
    const StepHead* image = nullptr;  // address in the block kPrepared of its program
    uint32_t entry = 0;
    int32_t rows = 0;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
    std::byte value = {};
    bool operator==(const Command&) const = default;
  };
  struct Arrival {  // a copy to the caller's host memory when all has run
    void* to;
    const std::byte* from;
    size_t bytes;
  };
  struct PinnedBlock {
    std::byte* at;
    size_t bytes;
  };
  struct Mark {  // an event that was recorded in this segment
    bool ends;   // whether it ends what began at the mark before
    const char* kernel;
  };
  struct Recording {
    std::vector<Command> commands;
    GraphExec graph = nullptr;
    DevicePointer memory = 0;  // images of steps that share a launch, and turned codes; 0 if there are neither
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
  std::vector<Function> functions_;                 // device functions by entry; null: not looked up yet
  std::map<std::string, Function> many_functions_;  // functions that were looked up; null: there is none
  std::vector<DevicePointer> allocated_;
  uint32_t* failure_ = nullptr;  // word in host memory, and its device address
  DevicePointer failure_on_device_ = 0;
  Port port_ = {};
  bool in_segment_ = false, holding_ = false;
  std::vector<Command> commands_;  // commands of this segment that are not launched yet
  std::vector<Recording> recordings_;
  std::vector<Arrival> arrivals_;
  std::vector<PinnedBlock> pinned_;
  size_t pinned_block_ = 0, pinned_taken_ = 0;  // position from which the next piece of pinned memory comes
  Products products_;
  bool tf32_ = false;
  std::map<std::string, Function> product_kernels_;  // kernels that were looked up
  Timing timing_ = Timing::kNone;
  std::vector<Event> events_;  // the first ones are at the marks of this segment
  std::vector<Mark> marks_;
  std::vector<Time> times_;
  Counts counts_;
  char name_[64] = "";
  int architecture_ = 0;
  char sentence_[192] = "";
};

}  // namespace nacre::cuda
