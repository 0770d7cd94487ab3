// The slots of forged_checkpoints: fields of header, table and note that are changed under right checksums, and slots
// that are no slots.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/claims/forged_checkpoints.h"
#include "tests/train/forged_slot.h"

namespace nacre::test {
namespace {

namespace fs = std::filesystem;
using tools::read_bytes;
using tools::write_bytes;

constexpr uint64_t kValues[] = {0,
                                1,
                                0x7FFFFFFF,
                                uint64_t{1} << 31,
                                0xFFFFFFFF,
                                uint64_t{1} << 32,
                                uint64_t{1} << 39,
                                (uint64_t{1} << 40) - 4096,
                                ~uint64_t{0}};

class Slots {
 public:
  explicit Slots(const Bench& bench) : bench_(bench), run_(bench.path("run")), output_(bench.path("out.nacre")) {
    // Makes two checkpoints of one training and one of another training.
    prepare("1", bench.model, bench.path("good"));
    prepare("2", bench.model, bench.path("good"));
    prepare("2", bench.other, bench.path("foreign"));
    for (const int i : {0, 1}) good_[i] = read_bytes(slot("good", i)), foreign_[i] = read_bytes(slot("foreign", i));
    newest_ = ForgedSlot(good_[1]).get(8, 4) > ForgedSlot(good_[0]).get(8, 4) ? 1 : 0;
  }

  Found all() {
    fields();
    others();
    return found_;
  }

 private:
  std::string slot(const std::string& folder, int i) const {
    return bench_.path(folder + "/slot" + std::to_string(i) + ".checkpoint");
  }

  Arguments tune(const std::string& model, const std::string& epochs, const Arguments& more) const {
    Arguments all = {"tune", model,     "--data", bench_.data, "--labels", bench_.labels, "--cast-samples", "--epochs",
                     epochs, "--batch", "16",     "--lr",      "0.01",     "-o",          output_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void prepare(const std::string& epochs, const std::string& model, const std::string& folder) {
    const Measured m = run_measured(tune(model, epochs, {"--checkpoint", folder}));
    if (m.exit_code != 0) found_.fail("a good training: " + m.error);
    unlink(output_.c_str());
  }

  // Runs every command that reads checkpoints, with `first` as the newest slot and `second` as the other one.
  void judge(const std::string& what, const std::vector<uint8_t>& first, const std::vector<uint8_t>& second) {
    if (case_++ % bench_.every != 0) return;
    judge_made(what, [&] {
      write_bytes(slot("run", newest_), first);
      write_bytes(slot("run", 1 - newest_), second);
    });
  }

  template <class Make>
  void judge_made(const std::string& what, const Make& make) {
    const std::pair<const char*, Arguments> commands[] = {
        {"tune", tune(bench_.model, "2", {"--checkpoint", run_})},
        {"tune --restart", tune(bench_.model, "1", {"--checkpoint", run_, "--restart"})},
        {"tune --start-from", tune(bench_.model, "1", {"--start-from", run_})},
        {"export", {"export", bench_.model, "--checkpoint", run_, "-o", output_}}};
    for (const auto& [name, arguments] : commands) {
      fs::remove_all(run_);
      fs::create_directory(run_);
      make();
      const bool saves = std::string(name).starts_with("tune") && std::string(name) != "tune --start-from";
      const auto before = sizes();
      const Measured m = run_measured(arguments);
      found_.judge(bench_, std::string(name) + ": " + what, m);
      if ((m.exit_code != 0 || !saves) && sizes() != before)
        found_.fail(std::string(name) + ": " + what + ": the slots were changed");
      if (fs::exists(output_) != (m.exit_code == 0))
        found_.fail(std::string(name) + ": " + what + ": an output, or none");
      fs::remove(output_);
    }
  }

  // Returns sizes and times of the files in the folder. It reads no file, because a file may have 1 TiB.
  std::vector<int64_t> sizes() const {
    std::vector<int64_t> all;
    for (const int i : {0, 1}) {
      struct stat s = {};
      lstat(slot("run", i).c_str(), &s);
      all.insert(all.end(),
                 {int64_t(s.st_size), int64_t(s.st_blocks), int64_t(s.st_mtim.tv_sec), int64_t(s.st_mtim.tv_nsec)});
    }
    return all;
  }

  void forge(const std::string& what, size_t at, size_t bytes, uint64_t value, bool header) {
    ForgedSlot slot(good_[newest_]);
    if (slot.get(at, bytes) == (bytes == 8 ? value : value & ((uint64_t{1} << (8 * bytes)) - 1))) return;
    // Skips a value whose low bytes are another one of the values.
    if (bytes < 8 && value >> (8 * bytes) != 0 && value != ~uint64_t{0}) return;
    slot.set(at, bytes, value);
    if (!header || at != 16) slot.seal_layout();
    if (!header || at != 52) slot.seal_payload();
    if (!header || at != 60) slot.seal_header();
    const std::string text = what + " = " + std::to_string(value);
    const std::vector<uint8_t> forged(slot.bytes().begin(), slot.bytes().end());
    if (header) judge(text + ", the other slot good", forged, good_[1 - newest_]);
    judge(text + ", alone", forged, {});
  }

  void fields() {
    const ForgedSlot good(good_[newest_]);
    for (const uint64_t value : kValues)
      for (const SlotField& f : kHeaderFields) forge(f.name, f.offset, f.bytes, value, true);
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 31, uint64_t{1} << 39, ~uint64_t{0}})
      for (const size_t row : {size_t{0}, size_t(good.records() - 1)})
        for (const SlotField& f : kRowFields)
          forge("row " + std::to_string(row) + " " + f.name, good.row(row) + f.offset, f.bytes, value, false);
    const size_t note_bytes = size_t(good.get(44, 4)), note = good_[newest_].size() - note_bytes;
    for (const uint64_t value : {uint64_t{1}, uint64_t{0xFFFFFFFF}})
      for (size_t at = 0; at < 100; at += 4) forge("note " + std::to_string(at), note + at, 4, value, false);
  }

  // Makes a header with right checksums, whose parts lie in the hole of a file of 1 TiB.
  void sparse(const char* field, size_t at, size_t bytes, uint64_t value) {
    ForgedSlot forged(good_[newest_]);
    forged.set(at, bytes, value);
    forged.seal_layout();
    forged.seal_payload(uint64_t{64} << 20);
    forged.seal_header();
    const std::vector<uint8_t> head(forged.bytes().begin(), forged.bytes().end());
    judge_made(std::string("1 TiB with ") + field + " " + std::to_string(value), [&] {
      sparse_file(slot("run", newest_), head);
      write_bytes(slot("run", 1 - newest_), {});
    });
  }

  void others() {
    judge("both good", good_[newest_], good_[1 - newest_]);
    judge("swapped", good_[1 - newest_], good_[newest_]);
    judge("of another model", foreign_[newest_], foreign_[1 - newest_]);
    judge("one of another model", foreign_[newest_], good_[1 - newest_]);
    judge("a model file", read_bytes(bench_.model), read_bytes(bench_.plain));
    judge("twice the same", good_[newest_], good_[newest_]);
    for (size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{100}, good_[newest_].size() / 2,
                        good_[newest_].size() - 1})
      judge("cut at " + std::to_string(size), {good_[newest_].begin(), good_[newest_].begin() + ptrdiff_t(size)}, {});
    for (const char* kind : {"pipe", "folder", "socket", "device", "sparse"})
      for (const int which : {0, 1})
        judge_made(std::string(kind) + " as slot " + std::to_string(which), [&] {
          write_bytes(slot("run", 1 - which), good_[1 - which]);
          make_special(kind, slot("run", which));
        });
    judge_made("a good slot in a file of 1 TiB", [&] { sparse_file(slot("run", newest_), good_[newest_]); });
    for (const uint64_t value :
         {uint64_t{1} << 20, uint64_t{15} << 20, uint64_t{48} << 20, uint64_t{1} << 31, uint64_t{1} << 39}) {
      sparse("state_bytes", 24, 8, value);
      if (value <= 0xFFFFFFFF) sparse("note_bytes", 44, 4, value);
      if (value <= 0xFFFFFFFF) sparse("records", 40, 4, value);
    }
  }

  const Bench& bench_;
  std::string run_, output_;
  std::vector<uint8_t> good_[2], foreign_[2];
  int newest_ = 0, case_ = 0;
  Found found_;
};

}  // namespace

Found forged_slots(const Bench& bench) { return Slots(bench).all(); }

}  // namespace nacre::test
