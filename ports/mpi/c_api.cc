#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "engine/base/crc32c.h"
#include "ports/mpi/exchange.h"
#include "ports/mpi/nacre_mpi.h"

struct nacre_mpi {
  explicit nacre_mpi(MPI_Comm communicator) : ranks(communicator) {}

  nacre::mpi::Ranks ranks;
  std::unique_ptr<nacre::mpi::Exchange> exchange;  // null if the ranks do not fit together
  std::string problem;
};

namespace {

using namespace nacre::mpi;

std::vector<nacre::SumRun> runs_of(const nacre_model* model, nacre::SumRun* gradients) {
  std::vector<nacre::SumRun> runs;
  nacre_gradient_run run = {};
  const uint32_t count = nacre_gradient_run_at(model, 0, &run);
  *gradients = {run.float32_first, run.float32_bytes, nacre::SumKind::kFloat32};
  for (uint32_t i = 0; i < count; ++i) {
    nacre_gradient_run_at(model, i, &run);
    runs.push_back({run.first, run.bytes, nacre::SumKind(run.kind)});
  }
  return runs;
}

std::string hex(const uint8_t* bytes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

constexpr const char* kNull = "an argument is NULL";

// Lists the facts that must be equal on all ranks, so that their sums and states are equal.
std::string lines_of(const nacre_model* model, nacre_trainer* trainer, const nacre_mpi_options& options) {
  if (model == nullptr || trainer == nullptr) return kNull;
  uint8_t hash[16];
  nacre_model_hash(model, hash);
  size_t block = 0, bytes = 0;
  nacre_trainer_gradients(trainer, &block);
  const void* const state = nacre_trainer_state(trainer, &bytes);
  const uint32_t crc = nacre::crc32c({static_cast<const std::byte*>(state), bytes});
  return "library " + std::string(nacre_version()) + "\nmodel " + hex(hash, sizeof hash) + "\nstep block " +
         std::to_string(block) + " bytes\nstate of " + std::to_string(bytes) + " bytes, CRC-32C " +
         std::to_string(crc) + "\ncoding " + std::to_string(options.coding) + "\n" +
         (options.same == nullptr ? "" : options.same);
}

bool usable(const nacre_mpi* ranks) { return ranks != nullptr && ranks->exchange != nullptr && ranks->problem.empty(); }

int add(nacre_mpi* ranks, std::span<const std::byte> block, const Turn& turn) {
  const std::vector<Turn>& turns = ranks->exchange->add(block, turn);
  int rank = 0;
  if (const Turn* const failed = first_failed(turns, &rank); failed != nullptr)
    ranks->problem = "rank " + std::to_string(rank) + ": " + failed->text;
  return ranks->problem.empty() ? 1 : 0;
}

}  // namespace

extern "C" {

nacre_mpi* nacre_mpi_open(int communicator, const nacre_model* model, nacre_trainer* trainer,
                          const nacre_mpi_options* options) {
  nacre_mpi_options o = {};
  if (options != nullptr) std::memcpy(&o, options, std::min<size_t>(options->size, sizeof o));
  auto* const made = new (std::nothrow) nacre_mpi(MPI_Comm_f2c(communicator));
  if (made == nullptr) return nullptr;
  made->problem = made->ranks.require_same(lines_of(model, trainer, o));
  if (made->problem.empty() && (model == nullptr || trainer == nullptr)) made->problem = kNull;
  if (!made->problem.empty()) return made;
  size_t block = 0;
  nacre_trainer_gradients(trainer, &block);
  if (block == 0) made->problem = "the trainer gives no sums: it is not started, or its model updates at once";
  if (o.coding > 2) made->problem = "there is no such coding of gradients: 0, 1 or 2";
  if (!made->problem.empty()) return made;
  nacre::SumRun gradients;
  const std::vector<nacre::SumRun> runs = runs_of(model, &gradients);
  made->exchange = std::make_unique<Exchange>(made->ranks, runs, block, Coding(o.coding), gradients);
  made->exchange->begin_step(nacre_trainer_loss_scale(model, trainer));
  return made;
}

const char* nacre_mpi_problem(const nacre_mpi* ranks) {
  if (ranks == nullptr) return "there was no memory for the ranks";
  return ranks->problem.empty() ? nullptr : ranks->problem.c_str();
}
uint32_t nacre_mpi_rank(const nacre_mpi* ranks) { return ranks == nullptr ? 0 : uint32_t(ranks->ranks.rank()); }
uint32_t nacre_mpi_count(const nacre_mpi* ranks) { return ranks == nullptr ? 0 : uint32_t(ranks->ranks.count()); }

int nacre_mpi_add(nacre_mpi* ranks, nacre_trainer* trainer) {
  if (!usable(ranks)) return 0;
  size_t size = 0;
  const void* const block = trainer == nullptr ? nullptr : nacre_trainer_gradients(trainer, &size);
  return add(ranks, {static_cast<const std::byte*>(block), size}, {});
}

int nacre_mpi_fail(nacre_mpi* ranks, const char* why) {
  if (!usable(ranks)) return 0;
  Turn turn = {.failed = 1};
  turn.say(why == nullptr ? "it cannot go on" : why);
  return add(ranks, {}, turn);
}

int nacre_mpi_finish(nacre_mpi* ranks, nacre_trainer* trainer, uint32_t micro_batches) {
  if (!usable(ranks)) return 0;
  if (trainer == nullptr) {
    ranks->problem = kNull;
    return 0;
  }
  size_t size = 0;
  void* const block = nacre_trainer_gradients(trainer, &size);
  if (!ranks->exchange->finish({static_cast<std::byte*>(block), size})) ranks->problem = "no rank gave a micro-batch";
  else if (nacre_trainer_merged(trainer, micro_batches).code != 0) ranks->problem = "the step has no micro-batch";
  return ranks->problem.empty() ? 1 : 0;
}

void nacre_mpi_end_step(nacre_mpi* ranks, const nacre_model* model, const nacre_trainer* trainer,
                        const nacre_report* report) {
  if (!usable(ranks) || model == nullptr || trainer == nullptr || report == nullptr) return;
  ranks->exchange->end_step(report->applied != 0);
  ranks->exchange->begin_step(nacre_trainer_loss_scale(model, trainer));
}

uint64_t nacre_mpi_sent_bytes(const nacre_mpi* ranks) {
  return ranks == nullptr || ranks->exchange == nullptr ? 0 : ranks->exchange->sent_bytes();
}

void nacre_mpi_close(nacre_mpi* ranks) { delete ranks; }

}  // extern "C"
