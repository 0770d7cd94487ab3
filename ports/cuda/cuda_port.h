// The port of NVIDIA's GPUs: the kernels of the reference, compiled for the device, over the device's memory.
//
//   cuda::Device device;
//   if (!device.open(cuda::load_driver(), cuda::modules())) return device.sentence();
//   const Port* const ports[] = {nullptr, &device.port()};
//   Places places(ports);  ...  places.give(1, device.allocate(places.bytes(1)));
//
// What a segment is asked to run is put off until its outputs are copied: then all its kernels are one CUDA graph, made
// by the first run of these steps with this number of rows and launched by every later one. Guards are read on the
// device. A kernel that fails (an index outside of a table) tells it in a word of the host's memory, which `finish`
// reads.
//
// The device is that of the calling thread: open, bind, run and close on one. `open`, `allocate` and the first run of a
// program allocate, in the driver and here; a later run does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kernels/kernel.h"
#include "ports/cuda/driver.h"
#include "ports/cuda/step_image.h"

namespace nacre::cuda {

// The kernels of this build, one fat binary for each source file of them; none where it was built without nvcc.
std::span<const void* const> modules();

class Device {
 public:
  struct Counts {
    uint64_t launches = 0;    // of a graph
    uint64_t recordings = 0;  // of a graph, before its first launch
    uint64_t kernels = 0;     // in graphs that were launched
  };

  Device() = default;
  ~Device() { close(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // False: sentence() says why. `driver` may be null. Both must outlive the Device.
  bool open(const Driver* driver, std::span<const void* const> modules, int ordinal = 0);
  // Frees all that allocate gave. First unbind every program that is bound to the port.
  void close();

  static size_t entry_count();                // of the port's kernels
  static const char* name_of(Kernel kernel);  // "kDenseF32"; null: it is no kernel of the port

  // Of an open device.
  const Port& port() const { return port_; }
  // Bytes of the device's memory, for Places::give; empty where there are not as many.
  std::span<std::byte> allocate(size_t bytes);
  void release(std::span<std::byte> memory);  // that allocate gave

  // What the last failure was, in one sentence; "" if there was none.
  const char* sentence() const { return sentence_; }
  const char* name() const { return name_; }
  const Counts& counts() const { return counts_; }

 private:
  struct Command {
    const StepHead* image;  // in the block kPrepared of its program
    uint32_t entry;
    int32_t rows;
    bool operator==(const Command&) const = default;
  };
  struct Recording {
    std::vector<Command> commands;
    GraphExec graph;
  };

  template <size_t kIndex>
  static Code enqueue_entry(const Args& args);
  template <int kCount>
  static Code prepare_image(const Args& args);
  template <size_t... kIndex>
  static std::vector<Kernel> enqueuers(std::index_sequence<kIndex...>);
  template <size_t... kCount>
  static std::vector<Preparation> preparations(std::index_sequence<kCount...>);
  struct Tables;
  static const Tables& tables();

  Code begin();
  Code finish();
  Code copy(CopyDirection direction, void* to, const void* from, size_t bytes);
  Code fill(void* to, std::byte value, size_t bytes);
  Code prepare(const Args& args, int room, StepHead* image);
  Code enqueue(size_t entry, const Args& args);
  bool function_of(size_t entry, Function* function);
  Code flush();
  const Recording* record();
  bool capture(Graph* graph);
  void forget_recordings();
  bool succeeded(Result result, const char* what);
  bool refuse(const char* sentence);

  const Driver* driver_ = nullptr;
  DeviceNumber device_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  std::vector<Module> modules_;
  std::vector<Function> functions_;  // by entry; null: not looked up yet
  std::vector<DevicePointer> allocated_;
  uint32_t* failure_ = nullptr;  // on the host, and where the device sees it
  DevicePointer failure_on_device_ = 0;
  Port port_ = {};
  bool in_segment_ = false;
  std::vector<Command> commands_;  // of this segment, not launched yet
  std::vector<Recording> recordings_;
  Counts counts_;
  char name_[64] = "";
  char sentence_[192] = "";
};

}  // namespace nacre::cuda
