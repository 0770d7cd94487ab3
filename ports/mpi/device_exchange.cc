#include "ports/mpi/device_exchange.h"

#include <algorithm>

namespace nacre::mpi {
namespace {

constexpr uint64_t kLine = 256;  // slices begin at multiples of it
constexpr uint32_t kAdd = 0xFFFF0003, kOpen = 0xFFFF0004;

}  // namespace

DeviceExchange::DeviceExchange(Ranks& ranks, cuda::Device& device, const cuda::Nccl& nccl, std::span<const SumRun> runs,
                               uint64_t bytes)
    : ranks_(ranks), device_(device), nccl_(nccl), runs_(runs.begin(), runs.end()), count_(size_t(ranks.count())),
      rank_(size_t(ranks.rank())) {
  const uint64_t share = ((bytes + count_ - 1) / count_ + kLine - 1) / kLine * kLine;
  for (uint64_t r = 0; r < count_; ++r) {
    const uint64_t begin = std::min(bytes, r * share);
    slices_.push_back({begin, std::min(bytes, begin + share) - begin});
  }
}

DeviceExchange::~DeviceExchange() {
  if (communicator_ != nullptr) nccl_.destroy(communicator_);
  if (!memory_.empty()) device_.release(memory_);
}

// Returns the sentence of the first rank that failed. Every rank takes part in the turn.
std::string DeviceExchange::first_problem() {
  Turn mine = {.what = kOpen, .failed = problem_.empty() ? 0 : 1};
  mine.say(problem_);
  int rank = 0;
  const std::vector<Turn> turns = ranks_.turn(mine);
  const Turn* const failed = first_failed(turns, &rank);
  return failed == nullptr ? "" : "rank " + std::to_string(rank) + ": " + failed->text;
}

std::string DeviceExchange::open() {
  const uint64_t own = slices_[rank_].bytes, line = (own + kLine - 1) / kLine * kLine;
  cuda::NcclId id = {};
  if (on_device(device_.make_current())) {
    memory_ = device_.allocate(size_t(std::max(kLine, line * (count_ + 1))));
    if (memory_.empty()) problem_ = device_.sentence();
    else if (rank_ == 0) call(nccl_.unique_id(&id), "ncclGetUniqueId");
  }
  if (const std::string why = first_problem(); !why.empty()) return why;
  sum_ = memory_.data(), in_ = memory_.data() + line;
  ranks_.broadcast(std::as_writable_bytes(std::span(id.internal)));
  call(nccl_.init_rank(&communicator_, int(count_), id, int(rank_)), "ncclCommInitRank");
  return first_problem();
}

bool DeviceExchange::call(cuda::NcclResult result, const char* name) {
  if (result == cuda::kNcclSuccess) return true;
  if (problem_.empty()) problem_ = std::string(name) + ": " + nccl_.text(result);
  return false;
}

bool DeviceExchange::on_device(bool done) {
  if (!done && problem_.empty()) problem_ = device_.sentence();
  return done;
}

// Runs a group of NCCL messages, which are under way together.
template <class F>
bool DeviceExchange::together(F calls) {
  const bool begun = call(nccl_.group_start(), "ncclGroupStart"), made = begun && calls();
  const bool ended = begun && call(nccl_.group_end(), "ncclGroupEnd");
  return made && ended;
}

bool DeviceExchange::send(const std::byte* from, uint64_t bytes, size_t to) {
  if (bytes == 0) return true;
  sent_ += bytes;
  return call(nccl_.send(from, size_t(bytes), cuda::kNcclBytes, int(to), communicator_, device_.stream()), "ncclSend");
}

bool DeviceExchange::receive(std::byte* to, uint64_t bytes, size_t from) {
  return bytes == 0 ||
         call(nccl_.receive(to, size_t(bytes), cuda::kNcclBytes, int(from), communicator_, device_.stream()),
              "ncclRecv");
}

// Adds another rank's part of this rank's slice to the sum.
bool DeviceExchange::join(const std::byte* part) {
  const Slice& own = slices_[rank_];
  for (const SumRun& run : runs_) {
    const uint64_t begin = std::max(run.first, own.first), end = std::min(run.first + run.bytes, own.first + own.bytes);
    if (begin >= end) continue;
    const uint64_t at = begin - own.first;
    if (!on_device(device_.put_join(run.kind, sum_ + at, part + at, (end - begin) / element_bytes(run.kind))))
      return false;
  }
  return true;
}

const std::vector<Turn>& DeviceExchange::add(std::span<const std::byte> mine, Turn turn) {
  turn.gives = mine.empty() ? 0 : 1;
  if (turn.what == 0) turn.what = kAdd;
  turns_ = ranks_.turn(turn);
  const bool some = std::ranges::any_of(turns_, [](const Turn& t) { return t.gives != 0; });
  if (first_failed(turns_) != nullptr || !some) return turns_;
  const Slice& own = slices_[rank_];
  const uint64_t line = (own.bytes + kLine - 1) / kLine * kLine;
  bool done = on_device(device_.make_current()) && together([&] {
                bool all = true;
                for (size_t r = 0; r < count_ && all; ++r)
                  if (r != rank_ && turns_[r].gives != 0) all = receive(in_ + r * line, own.bytes, r);
                for (size_t r = 0; r < count_ && all && !mine.empty(); ++r)
                  if (r != rank_) all = send(mine.data() + slices_[r].first, slices_[r].bytes, r);
                return all;
              });
  for (size_t r = 0; r < count_ && done; ++r) {
    if (turns_[r].gives == 0) continue;
    const std::byte* const part = r == rank_ ? mine.data() + own.first : in_ + r * line;
    done = given_ ? join(part) : on_device(device_.put_copy(sum_, part, size_t(own.bytes)));
    given_ = true;
  }
  if (done) on_device(device_.wait());
  given_ = true;
  return turns_;
}

bool DeviceExchange::finish(std::span<std::byte> all) {
  if (!given_) return false;
  given_ = false;
  const Slice& own = slices_[rank_];
  const bool sent = on_device(device_.make_current()) && together([&] {
                      bool made = true;
                      for (size_t r = 0; r < count_ && made; ++r)
                        if (r != rank_) made = receive(all.data() + slices_[r].first, slices_[r].bytes, r);
                      for (size_t r = 0; r < count_ && made; ++r)
                        if (r != rank_) made = send(sum_, own.bytes, r);
                      return made;
                    });
  return sent && on_device(device_.put_copy(all.data() + own.first, sum_, size_t(own.bytes))) &&
         on_device(device_.wait());
}

}  // namespace nacre::mpi
