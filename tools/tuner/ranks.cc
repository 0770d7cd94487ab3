#include "tools/tuner/ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tools/base/colour.h"
#include "tools/base/format.h"
#include "tools/base/option_id.h"
#include "tools/base/print.h"
#include "tools/model/gpu.h"

#ifdef NACRE_MPI
#include "engine/train/step_sums.h"
#include "ports/mpi/device_exchange.h"
#include "ports/mpi/exchange.h"
#endif

namespace nacre::tools {

uint32_t started_processes() {
  // These variables are set by Open MPI; by MPICH and Intel MPI; by Slurm's srun --mpi=pmix.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE"})
    if (const char* const value = std::getenv(name)) return uint32_t(std::strtoul(value, nullptr, 10));
  return 0;
}

#ifdef NACRE_MPI

namespace {

using mpi::Turn;

constexpr uint32_t kRound = 1, kGive = 2, kNumber = 3, kLeave = 4, kDevices = 5;
std::string same_remedy() {
  return "give all ranks one command, the same files and the same kernels: float sums of other kernels round "
         "otherwise, " +
         option("kernels", "reference") + " is the same on every machine";
}

// Throws the failure of the first rank that failed, in that rank's words. Every rank throws the same.
[[noreturn]] void throw_told(int code, const std::string& text) { throw Told(ExitCode(code), "mpi", text); }

void require_none_failed(std::span<const Turn> turns) {
  int rank = 0;
  if (const Turn* const failed = mpi::first_failed(turns, &rank); failed != nullptr)
    throw_told(failed->failed, fmt::format("rank {}: {}", rank, failed->text));
}

// Returns the rank among the processes on this machine, which share its GPUs.
uint32_t rank_on_this_machine() {
  MPI_Comm here = MPI_COMM_NULL;
  int rank = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  MPI_Comm_rank(here, &rank);
  MPI_Comm_free(&here);
  return uint32_t(rank);
}

}  // namespace

struct Ranks::Parts {
  mpi::Ranks ranks{MPI_COMM_WORLD};
  std::unique_ptr<mpi::Exchange> exchange;
  std::unique_ptr<mpi::DeviceExchange> devices;  // in place of `exchange`, among GPUs

  // Exchanges turns. Throws Told if a rank failed.
  std::vector<Turn> turn(const Turn& mine) {
    std::vector<Turn> turns = ranks.turn(mine);
    require_none_failed(turns);
    return turns;
  }
};

Ranks::Ranks() : parts_(std::make_unique<Parts>()) {}

std::unique_ptr<Ranks> Ranks::start() {
  if (started_processes() == 0)
    throw Error(kUsage, option("mpi"), "this program was not started by mpirun",
                "mpirun -n 4 nacre tune " + option("mpi") + " ..");
  int given = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS)
    throw Error(kFailed, option("mpi"), "MPI does not start");
  std::unique_ptr<Ranks> ranks(new Ranks());
  choose_gpu(rank_on_this_machine());
  if (!ranks->first()) {
    ranks->loud_ = fdopen(dup(2), "w");
    for (std::FILE* file : {stdout, stderr})
      if (std::freopen("/dev/null", "w", file) == nullptr) throw Error(kIo, "/dev/null", "cannot be written");
  }
  ranks->parts_->ranks.on_late(std::chrono::seconds(5), [](const std::vector<int>& late, double seconds) {
    std::string list;
    for (const int rank : late) list += fmt::format("{}{}", list.empty() ? "" : ", ", rank);
    complain(fmt::format("waits for rank {}: {:.0f} s\n", list, seconds));
  });
  return ranks;
}

Ranks::~Ranks() {
  parts_.reset();
  MPI_Finalize();
}

uint32_t Ranks::rank() const { return uint32_t(parts_->ranks.rank()); }
uint32_t Ranks::count() const { return uint32_t(parts_->ranks.count()); }

void Ranks::require_same(const std::string& lines) {
  parts_->turn({.what = kGive});  // throws if a rank failed before
  const std::string why = parts_->ranks.require_same(lines);
  if (!why.empty()) throw Told(kUsage, "mpi", why, same_remedy());
}

void Ranks::give_all(std::vector<std::byte>* bytes) {
  const std::vector<Turn> turns = parts_->turn({.what = kGive, .numbers = {bytes->size()}});
  bytes->resize(size_t(turns[0].numbers[0]));
  parts_->ranks.broadcast(*bytes);
}

bool Ranks::on_gpus() const { return parts_->devices != nullptr; }

// Opens NCCL's exchange if all ranks can use it. Otherwise returns why the host's exchange is used, equal on all
// ranks.
std::string Ranks::open_devices(const Model& model, std::span<const SumRun> runs) {
  const cuda::Nccl* const nccl = gpu_nccl();
  const std::vector<Turn> turns =
      parts_->turn({.what = kDevices, .numbers = {nccl != nullptr ? 1u : 0u, gpu_is_own() ? 1u : 0u}});
  for (size_t rank = 0; rank < turns.size(); ++rank) {
    if (turns[rank].numbers[0] == 0) return fmt::format("rank {} finds no NCCL (libnccl.so.2)", rank);
    if (turns[rank].numbers[1] == 0) return fmt::format("rank {} shares its GPU with another", rank);
  }
  auto made = std::make_unique<mpi::DeviceExchange>(parts_->ranks, gpu_device(), *nccl, runs,
                                                    model.region_bytes(Region::kStep));
  const std::string why = made->open();
  if (why.empty()) parts_->devices = std::move(made);
  return why;
}

// Ends all ranks if the exchange failed here: the others would wait for data that this rank did not send.
void Ranks::require_exchanged() const {
  if (!on_gpus() || parts_->devices->problem().empty()) return;
  const std::string said = fmt::format("nacre: rank {}: {}\n", rank(), parts_->devices->problem());
  std::fputs(said.c_str(), loud_ != nullptr ? loud_ : stderr);
  std::fflush(nullptr);
  MPI_Abort(parts_->ranks.communicator(), kFailed);
}

void Ranks::exchange_sums(const Model& model, const std::string& coding, bool on_gpus) {
  std::vector<SumRun> runs(sum_runs(model, {}));
  sum_runs(model, runs);
  const auto code = coding == "bfloat16" ? mpi::Coding::kBfloat16
                    : coding == "float8" ? mpi::Coding::kFloat8
                                         : mpi::Coding::kNone;
  const SumRun gradients = gradient_run(model);
  if (code != mpi::Coding::kNone && gradients.bytes == 0)
    throw Error(kUnsupported, option("compress"), "the gradients of this model are not float32", "leave it out");
  if (on_gpus && count() > 1) {
    const std::string why =
        code != mpi::Coding::kNone ? option("compress") + " codes them there" : open_devices(model, runs);
    if (why.empty()) return;
    note("the sums of each step go by way of the host: " + why);
  }
  parts_->exchange =
      std::make_unique<mpi::Exchange>(parts_->ranks, runs, model.region_bytes(Region::kStep), code, gradients);
}

Ranks::Said Ranks::add(std::span<const std::byte> block, const Said& mine) {
  const Turn turn = {
      .what = kRound, .wishes = mine.stops ? 1u : 0u, .numbers = {mine.right, mine.answers, mine.rows, mine.left_out}};
  const std::vector<Turn>& turns = on_gpus() ? parts_->devices->add(block, turn) : parts_->exchange->add(block, turn);
  require_exchanged();
  require_none_failed(turns);
  Said all;
  for (const Turn& t : turns) {
    all.right += t.numbers[0], all.answers += t.numbers[1], all.rows += t.numbers[2], all.left_out += t.numbers[3];
    all.stops = all.stops || t.wishes != 0;
  }
  return all;
}

bool Ranks::finish(std::span<std::byte> all) {
  const bool some = on_gpus() ? parts_->devices->finish(all) : parts_->exchange->finish(all);
  require_exchanged();
  return some;
}
void Ranks::begin_step(float loss_scale) {
  if (!on_gpus()) parts_->exchange->begin_step(loss_scale);
}
void Ranks::end_step(bool applied) {
  if (!on_gpus()) parts_->exchange->end_step(applied);
}

void Ranks::require_same_number(uint64_t number, const std::string& what) {
  const std::vector<Turn> turns = parts_->turn({.what = kNumber, .numbers = {number}});
  for (size_t rank = 1; rank < turns.size(); ++rank)
    if (turns[rank].numbers[0] != turns[0].numbers[0])
      throw Told(kFailed, "mpi", fmt::format("{} on rank {} and on rank 0", what, rank), same_remedy());
}

void Ranks::leave() { parts_->turn({.what = kLeave}); }

void Ranks::fail(const std::string& why, int code, bool told) {
  std::string words = why;
  if (!told) {
    Turn turn = {.what = kRound, .failed = code};
    turn.say(why);
    int rank = 0;
    const std::vector<Turn> turns = parts_->ranks.turn(turn);
    const Turn* const failed = mpi::first_failed(turns, &rank);
    words = rank == 0 ? why : fmt::format("rank {}: {}", rank, failed->text);
  }
  flush_printed();
  if (first()) complain_of(words);
  MPI_Barrier(parts_->ranks.communicator());  // so that rank 0 prints before mpirun sees a process end
}

#else

struct Ranks::Parts {};

Ranks::Ranks() = default;
Ranks::~Ranks() = default;

std::unique_ptr<Ranks> Ranks::start() {
  throw Error(kUnsupported, option("mpi"), "this build has no MPI",
              "install libopenmpi-dev and build anew with -Dmpi=enabled");
}

uint32_t Ranks::rank() const { return 0; }
uint32_t Ranks::count() const { return 1; }
void Ranks::require_same(const std::string&) {}
void Ranks::give_all(std::vector<std::byte>*) {}
void Ranks::exchange_sums(const Model&, const std::string&, bool) {}
bool Ranks::on_gpus() const { return false; }
Ranks::Said Ranks::add(std::span<const std::byte>, const Said& mine) { return mine; }
bool Ranks::finish(std::span<std::byte>) { return false; }
void Ranks::begin_step(float) {}
void Ranks::end_step(bool) {}
void Ranks::require_same_number(uint64_t, const std::string&) {}
void Ranks::leave() {}
void Ranks::fail(const std::string&, int, bool) {}

#endif

}  // namespace nacre::tools
