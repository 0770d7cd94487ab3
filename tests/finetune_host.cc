// Runs the fine-tuning image's loop on this machine, for tests/firmware.sh: the same data and steps, without
// checkpoints.
//
//   finetune_host MODEL DATA TEST LEARNING_RATE_MILLIONTHS EPOCHS MICRO_BATCHES STATE
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "engine/kernels/training.h"
#include "engine/ops/integer_share.h"
#include "firmware/images/file_learner.h"
#include "firmware/images/finetune.h"
#include "ports/cortex_m/cortex_m.h"
#include "tools/base/error.h"
#include "tools/files/npy.h"
#include "tools/model/loaded_model.h"

namespace {

std::vector<uint8_t> g_data, g_test;

bool read_from(const std::vector<uint8_t>& from, uint64_t offset, std::span<std::byte> bytes) {
  if (offset + bytes.size() > from.size()) return false;
  std::memcpy(bytes.data(), from.data() + offset, bytes.size());
  return true;
}
bool read_data(uint64_t offset, std::span<std::byte> bytes) { return read_from(g_data, offset, bytes); }
bool read_test(uint64_t offset, std::span<std::byte> bytes) { return read_from(g_test, offset, bytes); }

// Counts codes of the trained parameters under int8/full, summed over the steps: all codes, those in channels of
// which a step changed a code, and those that it changed. In a bias each code is a channel.
class WrittenCodes {
 public:
  void take(const nacre::Trainer& trainer, const nacre::Model& model) {
    trainer_ = &trainer;
    model_ = &model;
    for (const nacre::StepRecord& step : model.steps())
      if (step.op == nacre::Op::kSgdCodes) add(step);
    count(0);
  }
  // The first call, with of_step = 0, only records the codes before the first step.
  void count(uint64_t of_step) {
    for (Parameter& p : parameters_) {
      const std::vector<int32_t> now = codes(p);
      std::vector<bool> written(size_t(p.at.channels));
      for (int k = 0; k < p.at.channels && !p.codes.empty(); ++k)
        for (int i = 0; i < p.at.inner; ++i) {
          const auto e = size_t(p.at.first(k) + i * p.at.step);
          changed_ += now[e] == p.codes[e] ? 0 : of_step;
          written[size_t(k)] = written[size_t(k)] || now[e] != p.codes[e];
        }
      written_ += of_step * uint64_t(std::ranges::count(written, true)) * uint64_t(p.at.inner);
      codes_ += of_step * now.size();
      p.codes = now;
    }
  }
  void print() const {
    if (parameters_.empty()) return;
    std::printf("codes_seen %llu\ncodes_written %llu\ncodes_changed %llu\n", static_cast<unsigned long long>(codes_),
                static_cast<unsigned long long>(written_), static_cast<unsigned long long>(changed_));
  }

 private:
  struct Parameter {
    uint32_t master, stored;  // stored: kNoIndex where codes are what masters round to
    int bits;
    bool int8;
    nacre::ChannelElements at;
    std::vector<int32_t> codes;
  };

  // Finds the step that makes codes from this master.
  void add(const nacre::StepRecord& sgd) {
    const uint32_t master = model_->operands(sgd)[4] & nacre::kOperandIdMask;
    for (const nacre::StepRecord& step : model_->steps()) {
      const bool rounds = step.op == nacre::Op::kRoundCodes;
      if (!rounds && step.op != nacre::Op::kWriteCodes) continue;
      const uint32_t* operands = model_->operands(step);
      if ((operands[rounds ? 0 : 1] & nacre::kOperandIdMask) != master) continue;
      const uint32_t code = operands[rounds ? 1 : 2] & nacre::kOperandIdMask;
      const nacre::TensorRecord& r = model_->tensors()[master];
      parameters_.push_back({master,
                             rounds ? nacre::kNoIndex : code,
                             model_->words(step).integer(0),
                             model_->tensors()[code].element == nacre::ElementType::kInt8,
                             nacre::ChannelElements::of({r.rank, r.dims}, model_->words(sgd)[0] != 0),
                             {}});
      return;
    }
  }

  std::vector<int32_t> codes(const Parameter& p) const {
    const bool rounds = p.stored == nacre::kNoIndex;
    const nacre::TensorRecord& r = model_->tensors()[rounds ? p.master : p.stored];
    const std::byte* from = trainer_->state().data() + r.offset;
    std::vector<int32_t> all(size_t(p.at.channels) * size_t(p.at.inner));
    for (size_t i = 0; i < all.size(); ++i) {
      int32_t wide = 0;
      if (!rounds && p.int8) wide = int8_t(from[i]);
      else std::memcpy(&wide, from + i * sizeof wide, sizeof wide);
      if (rounds)
        wide = p.int8 ? nacre::code_of_master<int8_t>(wide, p.bits) : nacre::code_of_master<int32_t>(wide, p.bits);
      all[i] = wide;
    }
    return all;
  }

  const nacre::Trainer* trainer_ = nullptr;
  const nacre::Model* model_ = nullptr;
  std::vector<Parameter> parameters_;
  uint64_t codes_ = 0, written_ = 0, changed_ = 0;
};
WrittenCodes g_written;

void committed(uint32_t, const nacre::Trainer::Report&) { g_written.count(1); }

int run(char** a) {
  using namespace nacre;
  const tools::LoadedModel model(a[1]);
  g_data = tools::read_file(a[2]);
  g_test = tools::read_file(a[3]);
  const KernelSet* const kernels[] = {&cortex_m::kernels(), &reference::kernels(), &reference::training_kernels()};
  Sizes sizes;
  model.require(Trainer::measure(model.model(), nullptr, kernels, &sizes));
  tools::AlignedBytes block;
  block.resize(size_t(sizes.total()));
  Memory memory;
  model.require(Memory::cut(block.bytes(), sizes, &memory));
  Trainer trainer;
  model.require(trainer.bind(model.model(), nullptr, kernels, memory));
  firmware::FileLearner learner;
  learner.take(trainer, model.model());
  firmware::FineTune<firmware::FileLearner> tune = {
      .read_data = read_data,
      .read_test = read_test,
      .committed = committed,
      .learner = &learner,
      .storage = {},
      .learning_rate = firmware::rate_of_millionths(uint32_t(std::atoi(a[4]))),
      .epochs = uint32_t(std::atoi(a[5])),
      .micro_batches = uint32_t(std::atoi(a[6])),
      .save_every = 0};
  model.require(trainer.start());
  decltype(tune)::Evaluation before, after, trained;
  model.require(tune.evaluate(read_test, &before));
  g_written.take(trainer, model.model());
  model.require(tune.train());
  g_written.print();
  model.require(tune.evaluate(read_test, &after));
  std::printf("right_before %u\nsamples %u\nright_after %u\nfrozen_crc_test %u\n", before.right, before.samples,
              after.right, after.frozen_crc);
  if (trainer.infer().view().batch == 1) {
    model.require(tune.evaluate(read_data, &trained));
    std::printf("right_of_data %u\ndata_samples %u\nfrozen_crc_data %u\n", trained.right, trained.samples,
                trained.frozen_crc);
  }
  std::printf("micro_batches %u\nsteps %u\nrefused_steps %u\n", tune.seen, tune.steps, tune.refused);
  std::ofstream(a[7], std::ios::binary)
      .write(reinterpret_cast<const char*>(trainer.state().data()), std::streamsize(trainer.state().size()));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 8) {
    std::fprintf(stderr, "finetune_host MODEL DATA TEST LEARNING_RATE_MILLIONTHS EPOCHS MICRO_BATCHES STATE\n");
    return 2;
  }
  try {
    return run(arguments);
  } catch (const nacre::tools::Error& error) {
    std::fprintf(stderr, "finetune_host: %s\n", error.what());
    return 1;
  }
}
