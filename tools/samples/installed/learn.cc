// Trains a model made by `nacre convert --train` on samples, with checkpoints in a directory. It needs only the
// installed library. If it is run again, it resumes where it stopped.
//
//   c++ -std=c++20 learn.cc -o learn $(pkg-config --cflags --libs nacre-files)
//   ./learn train.nacre samples.bin labels.bin directory steps
//
// samples.bin and labels.bin hold micro-batches one after the other, as the bytes of inputs 0 and 1.
#include <nacre/files.h>
#include <nacre/nacre.h>
#include <nacre/schedule.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <vector>

namespace {

struct Line64 {  // files and memory start at a multiple of 64
  alignas(64) std::byte bytes[64];
};

struct File {
  std::vector<Line64> lines;
  size_t size = 0;

  explicit File(const char* path) {
    std::ifstream stream(path, std::ios::binary);
    const std::vector<char> read{std::istreambuf_iterator<char>(stream), {}};
    size = read.size();
    lines.resize(size / 64 + 1);
    if (size != 0) std::memcpy(lines.data(), read.data(), size);
  }
  std::span<const std::byte> bytes() const { return {lines.data()->bytes, size}; }
};

struct Job {
  File model, samples, labels;
  const char* directory;
  uint32_t steps;
};

nacre::Status train(const Job& job, float* loss) {
  const nacre::KernelSet* const kernels[] = {&nacre::reference::kernels(), &nacre::reference::training_kernels()};
  nacre::Model model;
  nacre::Trainer trainer;
  nacre::Sizes sizes;
  nacre::Memory memory;
  NACRE_TRY(model.open(job.model.bytes()));
  NACRE_TRY(nacre::Trainer::measure(model, nullptr, kernels, &sizes));
  std::vector<Line64> block(size_t(sizes.total() / 64 + 1));
  NACRE_TRY(nacre::Memory::cut({block.data()->bytes, block.size() * 64}, sizes, &memory));
  NACRE_TRY(trainer.bind(model, nullptr, kernels, memory));
  NACRE_TRY(trainer.start());

  nacre::CheckpointFiles files;
  if (!files.open(job.directory, nacre::CheckpointFiles::Use::kSave)) {
    std::fprintf(stderr, "%s\n", files.problem().sentence().c_str());
    return {nacre::Code::kStorageFailed};
  }
  nacre::Checkpoint checkpoint(files.storage(model));
  uint32_t done = 0;  // saved beside the state
  if (checkpoint.load(model, trainer.state(), nullptr, std::as_writable_bytes(std::span(&done, 1))).ok())
    NACRE_TRY(trainer.restored());
  std::printf("from step %u\n", done);

  const size_t batches = job.samples.size / trainer.input(0).size();
  const nacre::Schedule schedule = {.kind = nacre::ScheduleKind::kCosine, .rate = 0.01f, .steps = 2000, .end = 0.1f};
  for (; done < job.steps && batches != 0; ++done) {
    const auto take = [&](const File& file, uint32_t input) {
      const std::span<std::byte> to = trainer.input(input);
      std::memcpy(to.data(), file.bytes().data() + done % batches * to.size(), to.size());
    };
    take(job.samples, 0);
    take(job.labels, 1);
    nacre::Trainer::Report report;
    NACRE_TRY(trainer.accumulate());
    NACRE_TRY(trainer.commit(schedule.at(done), &report));
    *loss = report.loss;
  }
  return checkpoint.save(model, trainer.state(), {.note = std::as_bytes(std::span(&done, 1))});
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 6) return std::fprintf(stderr, "usage: learn train.nacre samples labels directory steps\n"), 2;
  const Job job = {File(arguments[1]), File(arguments[2]), File(arguments[3]), arguments[4],
                   uint32_t(std::strtoul(arguments[5], nullptr, 10))};
  float loss = 0;
  if (const nacre::Status status = train(job, &loss); !status.ok())
    return std::fprintf(stderr, "%s (%s %u)\n", nacre::sentence(status.code), nacre::table_name(status.table),
                        status.index),
           1;
  std::printf("loss %.9g after %u steps\n", double(loss), job.steps);
  return 0;
}
