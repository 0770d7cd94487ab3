#include "ports/mpi/exchange.h"

#include <algorithm>
#include <cstring>

namespace nacre::mpi {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 26;  // bytes of the block exchanged at once: MPI counts in int
constexpr uint64_t kLine = 64;                  // slices begin at multiples of it
constexpr uint32_t kAdd = 0xFFFF0002;

constexpr int kSliceTag = 2;

// MPI messages among ranks that are under way together.
class Messages {
 public:
  explicit Messages(Ranks& ranks) : ranks_(ranks) {}

  void receive(std::byte* to, size_t bytes, size_t from) {
    if (bytes > 0) MPI_Irecv(to, int(bytes), MPI_BYTE, int(from), kSliceTag, ranks_.communicator(), next(from));
  }
  void send(const std::byte* from, size_t bytes, size_t to) {
    if (bytes > 0) MPI_Isend(from, int(bytes), MPI_BYTE, int(to), kSliceTag, ranks_.communicator(), next(to));
  }
  void wait() { ranks_.wait_all(requests_, peers_); }

 private:
  MPI_Request* next(size_t peer) {
    peers_.push_back(int(peer));
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }

  Ranks& ranks_;
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;
};

}  // namespace

Exchange::Exchange(Ranks& ranks, std::span<const SumRun> runs, uint64_t bytes, Coding coding, SumRun gradients)
    : ranks_(ranks), runs_(runs.begin(), runs.end()), coding_(gradients.bytes == 0 ? Coding::kNone : coding),
      gradients_(gradients), count_(size_t(ranks.count())), rank_(size_t(ranks.rank())) {
  size_t mine = 0, largest_in = 0, largest_out = 0, errors = 0, largest_slice = 0;
  for (uint64_t first = 0; first < bytes; first += kPiece, ++pieces_) {
    const uint64_t length = std::min(kPiece, bytes - first);
    const uint64_t share = ((length + count_ - 1) / count_ + kLine - 1) / kLine * kLine;
    size_t out = 0;
    for (uint64_t r = 0; r < count_; ++r) {
      const uint64_t begin = std::min(length, r * share), end = std::min(length, begin + share);
      slices_.push_back(slice(first + begin, end - begin));
      out += slices_.back().sent;
    }
    const Slice& own = piece(pieces_)[rank_];
    at_.push_back(mine);
    error_at_.push_back(errors);
    mine += size_t(own.whole.bytes);
    errors += size_t(own.coded.bytes) / sizeof(float);
    largest_in = std::max(largest_in, own.sent * count_);
    largest_out = std::max(largest_out, out);
    largest_slice = std::max(largest_slice, size_t(own.whole.bytes));
  }
  sum_.resize(mine);
  in_.resize(std::max(largest_in, coding_ == Coding::kNone ? 0 : largest_out));
  if (coding_ == Coding::kNone) return;
  out_.resize(largest_out);
  decoded_.resize(largest_slice);
  error_.resize(size_t(gradients_.bytes) / sizeof(float));
  sum_error_.resize(errors);
  begin_step(1);
}

Exchange::Slice Exchange::slice(uint64_t first, uint64_t bytes) const {
  Slice s;
  s.whole = {first, bytes};
  const uint64_t end = first + bytes;
  const uint64_t begin_coded = std::clamp(gradients_.first, first, end);
  const uint64_t end_coded = std::clamp(gradients_.first + gradients_.bytes, begin_coded, end);
  s.before = {first, begin_coded - first};
  s.coded = {begin_coded, end_coded - begin_coded};
  s.behind = {end_coded, end - end_coded};
  s.sent = size_t(s.before.bytes + s.behind.bytes) + coded_bytes(coding_, size_t(s.coded.bytes) / sizeof(float));
  return s;
}

// `block` points at byte `origin` of the step block. `error` holds the errors of the slice's coded numbers, from the
// first one on.
void Exchange::pack(const Slice& s, const std::byte* block, uint64_t origin, std::span<float> error,
                    std::byte* to) const {
  const size_t numbers = size_t(s.coded.bytes) / sizeof(float);
  std::memcpy(to, block + (s.before.first - origin), size_t(s.before.bytes));
  to += s.before.bytes;
  encode(coding_, {reinterpret_cast<const float*>(block + (s.coded.first - origin)), numbers}, unit_, error, to);
  to += coded_bytes(coding_, numbers);
  std::memcpy(to, block + (s.behind.first - origin), size_t(s.behind.bytes));
}

void Exchange::unpack(const Slice& s, const std::byte* from, std::byte* block, uint64_t origin) const {
  const size_t numbers = size_t(s.coded.bytes) / sizeof(float);
  std::memcpy(block + (s.before.first - origin), from, size_t(s.before.bytes));
  from += s.before.bytes;
  decode(coding_, from, {reinterpret_cast<float*>(block + (s.coded.first - origin)), numbers});
  from += coded_bytes(coding_, numbers);
  std::memcpy(block + (s.behind.first - origin), from, size_t(s.behind.bytes));
}

void Exchange::begin_step(float loss_scale) {
  if (coding_ == Coding::kNone) return;
  unit_ = loss_scale;
  next_error_ = error_;
  next_sum_error_ = sum_error_;
}

void Exchange::end_step(bool applied) {
  if (coding_ == Coding::kNone || !applied) return;
  error_ = next_error_;
  sum_error_ = next_sum_error_;
}

const std::vector<Turn>& Exchange::add(std::span<const std::byte> mine, Turn turn) {
  turn.gives = mine.empty() ? 0 : 1;
  if (turn.what == 0) turn.what = kAdd;
  turns_ = ranks_.turn(turn);
  const bool some = std::ranges::any_of(turns_, [](const Turn& t) { return t.gives != 0; });
  if (first_failed(turns_) != nullptr || !some) return turns_;
  for (size_t i = 0; i < pieces_; ++i) add_piece(i, mine);
  given_ = true;
  return turns_;
}

void Exchange::add_piece(size_t i, std::span<const std::byte> mine) {
  const std::span<const Slice> slices = piece(i);
  const uint64_t origin = slices[0].whole.first;
  const Slice& own = slices[rank_];
  Messages messages(ranks_);
  std::vector<const std::byte*> got(count_, nullptr);
  for (size_t r = 0, filled = 0; r < count_; ++r) {
    if (turns_[r].gives == 0) continue;
    got[r] = in_.data() + filled;
    if (r != rank_) messages.receive(in_.data() + filled, own.sent, r);
    filled += own.sent;
  }
  for (size_t r = 0, at = 0; r < count_ && !mine.empty(); ++r) {
    const Slice& s = slices[r];
    const std::byte* from = mine.data() + s.whole.first;
    if (coding_ != Coding::kNone) {
      const size_t error = size_t(s.coded.first - gradients_.first) / sizeof(float);
      const std::span<float> errors =
          s.coded.bytes == 0 ? std::span<float>() : std::span(next_error_).subspan(error, size_t(s.coded.bytes) / 4);
      from = out_.data() + at;
      pack(s, mine.data() + origin, origin, errors, out_.data() + at);
      at += s.sent;
    }
    if (r == rank_) {
      got[r] = from;
      continue;
    }
    messages.send(from, s.sent, r);
    sent_ += s.sent;
  }
  messages.wait();
  std::byte* const sum = sum_.data() + at_[i];
  bool first = !given_;
  for (size_t r = 0; r < count_; ++r) {
    if (turns_[r].gives == 0 || own.whole.bytes == 0) continue;
    const std::byte* part = got[r];
    if (coding_ != Coding::kNone) {
      unpack(own, part, decoded_.data(), own.whole.first);
      part = decoded_.data();
    }
    if (first) std::memcpy(sum, part, size_t(own.whole.bytes));
    else
      for (const SumRun& run : runs_) join(run, own.whole.first, own.whole.bytes, sum, part);
    first = false;
  }
}

bool Exchange::finish(std::span<std::byte> all) {
  if (!given_) return false;
  for (size_t i = 0; i < pieces_; ++i) finish_piece(i, all);
  given_ = false;
  return true;
}

// The rank that has a slice of the sum codes it too, so that all ranks decode the same bytes.
void Exchange::finish_piece(size_t i, std::span<std::byte> all) {
  const std::span<const Slice> slices = piece(i);
  const uint64_t origin = slices[0].whole.first;
  const Slice& own = slices[rank_];
  const std::byte* from = sum_.data() + at_[i];
  std::byte* const to = coding_ == Coding::kNone ? all.data() + origin : in_.data();
  if (coding_ != Coding::kNone) {
    const std::span<float> errors = std::span(next_sum_error_).subspan(error_at_[i], size_t(own.coded.bytes) / 4);
    pack(own, from, own.whole.first, errors, out_.data());
    from = out_.data();
  }
  Messages messages(ranks_);
  std::vector<std::byte*> got(count_);
  size_t at = 0;
  for (size_t r = 0; r < count_; at += slices[r].sent, ++r) {
    got[r] = to + at;
    if (r != rank_) messages.receive(got[r], slices[r].sent, r);
  }
  for (size_t r = 0; r < count_; ++r)
    if (r != rank_) messages.send(from, own.sent, r), sent_ += own.sent;
  std::memcpy(got[rank_], from, own.sent);
  messages.wait();
  if (coding_ == Coding::kNone) return;
  for (size_t r = 0; r < count_; ++r) unpack(slices[r], got[r], all.data() + origin, origin);
}

}  // namespace nacre::mpi
