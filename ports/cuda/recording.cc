// Makes a graph from the steps that a Device deferred, and launches the graph.
#include <algorithm>
#include <cstring>
#include <string>

#include "ports/cuda/cuda_port.h"
#include "ports/cuda/cuda_tables.h"
#include "ports/cuda/step_groups.h"
#include "ports/cuda/turned_codes.h"
#include "ports/cuda/turned_kernels.h"

namespace nacre::cuda {
namespace {

constexpr size_t kPieceBytes = 256;  // the device's extra memory for a graph is given in such pieces

// Operands x, scale, amax, codes, and the transposed codes.
using TurnedImage = StepImage<5>;

TurnedImage turned_image(const StepHead& step, const TurnedCodes& codes) {
  TurnedImage image;
  std::memcpy(static_cast<void*>(&image), &step, sizeof(StepImage<4>));
  image.head.step.operand_count = 5;
  image.operand[4] = image.operand[3];
  image.operand[4].data = codes.to;
  return image;
}

uint64_t strips_of(const TurnedCodes& codes) {
  constexpr int kStrip = TurnedFakeFloat8::kStrip;
  return uint64_t((codes.rows + kStrip - 1) / kStrip) * uint64_t(codes.columns);
}

}  // namespace

// Launches the graph of these steps. If there is none yet, records it first.
bool Device::launch_graph() {
  const auto same = [&](const Recording& recording) { return recording.commands == commands_; };
  const auto found = std::ranges::find_if(recordings_, same);
  const Recording* const recording = found != recordings_.end() ? &*found : record();
  const bool timed = timing_ == Timing::kGraphs;
  if (recording == nullptr || (timed && !mark(false, nullptr)) ||
      !succeeded(driver_->graph_launch(recording->graph, stream_), "cuGraphLaunch") || (timed && !mark(true, nullptr)))
    return false;
  ++counts_.launches;
  counts_.kernels += size_t(std::ranges::count(commands_, Command::kStep, &Command::kind));
  counts_.products += recording->products;
  counts_.joined += recording->joined;
  counts_.turned += recording->turned;
  return true;
}

// Launches the steps one by one, between marks.
bool Device::launch_steps() {
  bool launched = mark(false, nullptr);
  for (const Command& command : commands_)
    launched = launched && launch(command, 0, {}, &counts_.products) && mark(true, tables().names[command.entry]);
  return launched;
}

size_t Device::image_bytes(const Command& command) { return tables().list[command.entry]->preparation->bytes({}, {}); }

// Parts of a graph: the steps that share a launch, and the extra device memory that the graph needs.
struct Device::Grouping {
  struct Launch {
    std::vector<size_t> steps;   // numbers of commands
    Function many = nullptr;     // null: the step runs alone, by its entry's kernel or as a product
    std::vector<size_t> turned;  // per step that also transposes its codes: an index into Grouping::turned
    size_t images = 0;           // offset of the launch's images in that memory
  };
  std::vector<Launch> launches;
  std::vector<TurnedCodes> turned;
  size_t image_bytes = 0, all_bytes = 0;
};

// ---- Which steps run together ----

// Returns the device ranges that a copy reads and writes. Host memory is not tracked, because only one command uses
// it.
std::vector<Touched> Device::touched_by(const Command& copy) {
  std::vector<Touched> made;
  if (copy.kind != Command::kCopyOut) made.push_back({copy.to, copy.to + copy.bytes, true});
  if (copy.kind == Command::kCopyOut || copy.kind == Command::kCopyWithin)
    made.push_back({copy.from, copy.from + copy.bytes, false});
  return made;
}

Device::Grouping Device::group() {
  std::vector<RecordedStep> steps;
  for (const Command& command : commands_) {
    if (command.kind != Command::kStep) {
      steps.push_back({nullptr, nullptr, 0, touched_by(command)});
      continue;
    }
    const KernelEntry& entry = *tables().list[command.entry];
    steps.push_back({&entry, command.image, command.rows, cuda::touched_by(entry, *command.image)});
  }
  Grouping made;
  made.turned = turned_codes(steps, has_products());
  std::erase_if(made.turned, [&](const TurnedCodes& codes) { return !function_of_many(commands_[codes.step], true); });
  const auto turns = [&](size_t step) { return std::ranges::find(made.turned, step, &TurnedCodes::step); };
  std::vector<size_t> kept;
  std::vector<GroupedStep> grouped;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (std::ranges::find(made.turned, i, &TurnedCodes::transpose) != made.turned.end()) continue;
    const auto codes = turns(i);
    const bool turned = codes != made.turned.end();
    if (turned && codes->transpose != TurnedCodes::kNone)
      steps[i].touched.push_back({codes->to, codes->to + size_t(codes->rows) * size_t(codes->columns), true});
    const bool joins = turned || function_of_many(commands_[i], false) != nullptr;
    const auto kernel = uint32_t(commands_[i].entry * 2 + turned);
    kept.push_back(i), grouped.push_back({kernel, joins, std::move(steps[i].touched)});
  }
  for (const std::vector<size_t>& group : groups_of(grouped)) {
    Grouping::Launch& launch = made.launches.emplace_back();
    for (const size_t i : group) launch.steps.push_back(kept[i]);
    const auto codes = turns(launch.steps.front());
    if (codes != made.turned.end())
      for (const size_t i : launch.steps) launch.turned.push_back(size_t(turns(i) - made.turned.begin()));
    if (launch.steps.size() > 1 || !launch.turned.empty())
      launch.many = function_of_many(commands_[launch.steps.front()], !launch.turned.empty());
  }
  return made;
}

// Returns the kernel that runs many such steps, and transposes their codes if `turned`; null if there is none. Called
// before a capture begins, because it looks the kernel up.
Function Device::function_of_many(const Command& command, bool turned) {
  if (command.kind != Command::kStep || (!turned && !tables().runs_many[command.entry])) return nullptr;
  const std::string name = std::string(tables().names[command.entry]) + (turned ? "TurnedMany" : "Many");
  const auto [found, is_new] = many_functions_.try_emplace(name, nullptr);
  if (is_new && !find_function(name.c_str(), &found->second)) found->second = nullptr, sentence_[0] = 0;
  return found->second;
}

// ---- Needs of recorded steps ----

// Allocates the extra memory of a graph. The images of shared launches come first in it, then transposed codes.
bool Device::allocate_for(Grouping* grouping, DevicePointer* at) {
  for (Grouping::Launch& launch : grouping->launches) {
    if (launch.many == nullptr) continue;
    launch.images = grouping->image_bytes;
    grouping->image_bytes +=
        launch.steps.size() * (launch.turned.empty() ? image_bytes(commands_[launch.steps[0]]) : sizeof(TurnedImage));
  }
  const auto whole = [](size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes; };
  grouping->all_bytes = whole(grouping->image_bytes);
  for (const TurnedCodes& codes : grouping->turned) grouping->all_bytes += whole(codes.bytes_besides());
  if (grouping->all_bytes == 0) return true;
  if (!succeeded(driver_->memory_allocate(at, grouping->all_bytes), "cuMemAlloc")) return *at = 0, false;
  DevicePointer besides = *at + whole(grouping->image_bytes);
  for (TurnedCodes& codes : grouping->turned) {
    if (codes.transpose == TurnedCodes::kNone) codes.to = reinterpret_cast<std::byte*>(besides);
    besides += whole(codes.bytes_besides());
  }
  return true;
}

std::vector<std::byte> Device::images_of(const Grouping& grouping) const {
  std::vector<std::byte> images;
  const auto add = [&](const void* image, size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(image);
    images.insert(images.end(), first, first + bytes);
  };
  for (const Grouping::Launch& launch : grouping.launches)
    for (size_t k = 0; launch.many != nullptr && k < launch.steps.size(); ++k) {
      const Command& command = commands_[launch.steps[k]];
      const size_t at = images.size();
      if (launch.turned.empty()) {
        add(command.image, image_bytes(command));
      } else {
        const TurnedImage image = turned_image(*command.image, grouping.turned[launch.turned[k]]);
        add(&image, sizeof image);
      }
      reinterpret_cast<StepHead*>(images.data() + at)->rows = command.rows;
    }
  return images;
}

// Copies the images to the device, before it returns.
bool Device::copy_images(const Grouping& grouping, DevicePointer at) {
  const std::vector<std::byte> images = images_of(grouping);
  return images.empty() ||
         (succeeded(driver_->copy_to_device(at, images.data(), images.size(), stream_), "a copy to the device") &&
          succeeded(driver_->stream_synchronize(stream_), "a copy to the device"));
}

// ---- The graph ----

const Device::Recording* Device::record() {
  Recording made;
  made.commands = commands_;
  Grouping grouping = group();
  Graph graph = nullptr;
  const bool ready = allocate_for(&grouping, &made.memory) && copy_images(grouping, made.memory) &&
                     capture(grouping, &graph, &made) &&
                     succeeded(driver_->graph_instantiate(&made.graph, graph, 0), "cuGraphInstantiate");
  if (graph != nullptr) driver_->graph_destroy(graph);
  if (!ready) {
    if (made.memory != 0) driver_->memory_free(made.memory);
    return nullptr;
  }
  ++counts_.recordings;
  return &recordings_.emplace_back(std::move(made));
}

// Records the graph. It ends a capture that began, even if something in it failed.
bool Device::capture(const Grouping& grouping, Graph* graph, Recording* made) {
  if (!succeeded(driver_->begin_capture(stream_, kCaptureThread), "cuStreamBeginCapture")) return false;
  bool launched = true;
  for (const Grouping::Launch& launch_of : grouping.launches) {
    if (!launched) break;
    const size_t step = launch_of.steps.front();
    if (launch_of.many == nullptr) {
      launched = launch(commands_[step], step, grouping.turned, &made->products);
      continue;
    }
    launched = launch_many(grouping, launch_of, made->memory);
    if (launch_of.steps.size() > 1) made->joined += launch_of.steps.size();
  }
  made->turned = grouping.turned.size();
  return succeeded(driver_->end_capture(stream_, graph), "cuStreamEndCapture") && launched;
}

// Launches one row of blocks for each step. Every row is as long as the longest step needs.
template <class Launch>
bool Device::launch_many(const Grouping& grouping, const Launch& of, DevicePointer memory) {
  uint32_t blocks = 1;
  for (const size_t i : of.steps) blocks = std::max(blocks, commands_[i].image->blocks);
  if (!of.turned.empty()) blocks = 1;
  for (const size_t i : of.turned) blocks = std::max(blocks, blocks_of(strips_of(grouping.turned[i])));
  DevicePointer images = memory + of.images;
  void* parameters[] = {&images};
  return succeeded(driver_->launch(of.many, blocks, uint32_t(of.steps.size()), 1, kBlockThreads, 1, 1, 0, stream_,
                                   parameters, nullptr),
                   "cuLaunchKernel");
}

bool Device::launch_copy(const Command& copy) {
  const auto at = [](const std::byte* p) { return DevicePointer(reinterpret_cast<uintptr_t>(p)); };
  switch (copy.kind) {
    case Command::kCopyIn:
      return succeeded(driver_->copy_to_device(at(copy.to), copy.from, copy.bytes, stream_), "a copy to the device");
    case Command::kCopyOut:
      return succeeded(driver_->copy_to_host(copy.to, at(copy.from), copy.bytes, stream_), "a copy to the host");
    case Command::kCopyWithin:
      return succeeded(driver_->copy_on_device(at(copy.to), at(copy.from), copy.bytes, stream_),
                       "a copy on the device");
    default:
      return succeeded(driver_->set_bytes(at(copy.to), static_cast<unsigned char>(copy.value), copy.bytes, stream_),
                       "cuMemsetD8");
  }
}

// Launches a step as a product; if it is none, by the kernel of its entry.
bool Device::launch(const Command& command, size_t index, std::span<const TurnedCodes> turned, uint64_t* products) {
  if (command.kind != Command::kStep) return launch_copy(command);
  alignas(StepImage<kMostOperands>) std::byte bytes[sizeof(StepImage<kMostOperands>)];
  const KernelEntry& entry = *tables().list[command.entry];
  std::memcpy(bytes, command.image, image_bytes(command));
  auto* const image = reinterpret_cast<StepHead*>(bytes);
  image->rows = command.rows;
  bool is_product = false;
  std::vector<TurnedCodes> read;  // transposed codes that this step reads
  for (const TurnedCodes& codes : turned)
    if (std::ranges::find(codes.products, index) != codes.products.end()) read.push_back(codes);
  if (has_products() && !launch_product(entry, tables().names[command.entry], image, command.rows, read, &is_product))
    return false;
  *products += is_product ? 1 : 0;
  const int phases = tables().threads[command.entry]->phases;
  bool launched = true;
  for (int phase = 1; !is_product && phase <= phases; ++phase) {
    image->phase = phases > 1 ? phase : 0;
    launched = launched && launch(functions_[command.entry], image->blocks, image);
  }
  return launched;
}

bool Device::launch(Function function, uint32_t blocks, void* image) {
  void* parameters[] = {image};
  return succeeded(driver_->launch(function, blocks, 1, 1, kBlockThreads, 1, 1, 0, stream_, parameters, nullptr),
                   "cuLaunchKernel");
}

void Device::forget_recordings() {
  for (const Recording& recording : recordings_) {
    driver_->graph_exec_destroy(recording.graph);
    if (recording.memory != 0) driver_->memory_free(recording.memory);
  }
  recordings_.clear();
}

}  // namespace nacre::cuda
