// False facts that a model file can state. Each row is a valid model, one mutation, and the one refusal that it must
// get. The numbers are those of FORMAT.md's list of malformed models ("what is refused"); a number may have several
// facts. Number 0 marks facts that are not in that list.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/kernels/kernel.h"
#include "tests/model/builder.h"

namespace nacre::test {

enum class Stage : uint8_t { kOpen, kMeasure, kBind, kWeights };
inline constexpr const char* kStageNames[] = {"open", "measure", "bind", "check_weights"};

// The expected refusal. `index` is that of the record in its table; for kFeature it is the unknown bits.
struct Refusal {
  Code code;
  Table table;
  uint32_t index = 0;
  Stage stage = Stage::kOpen;
};

struct Fact {
  int number;
  std::string text;
  Draft (*base)();
  std::function<void(Draft&)> draft;  // before packing: length and CRC are correct
  std::function<void(Buffer&)> file;  // after packing; repairs what it must
  std::function<std::span<const std::byte>(std::span<const std::byte>)> view;  // what is given to open
  Limits limits;
  std::span<const KernelSet* const> kernels;  // empty: the reference kernels
  Refusal expected;
};

// Collects the rows. draft() adds a mutation of the draft, file() one of the packed bytes.
class Facts {
 public:
  using OnDraft = std::function<void(Draft&)>;
  using OnFile = std::function<void(Buffer&)>;

  void draft(int number, const std::string& text, Draft (*base)(), OnDraft mutate, Refusal expected) {
    rows.push_back({number, text, base, std::move(mutate), {}, {}, {}, {}, expected});
  }
  void file(int number, const std::string& text, Draft (*base)(), OnFile mutate, Refusal expected) {
    rows.push_back({number, text, base, {}, std::move(mutate), {}, {}, {}, expected});
  }
  Fact& last() { return rows.back(); }

  std::vector<Fact> rows;
};

void file_facts(Facts& facts);      // bytes, header, FlatBuffer, counts, strings, segments
void tensor_facts(Facts& facts);    // records, quantizers, weights
void program_facts(Facts& facts);   // programs, plan, steps
void kernel_facts(Facts& facts);    // shapes and attributes, found by measure
void form_facts(Facts& facts);      // the same for the number formats that policies make
void training_facts(Facts& facts);  // state, step block, guards, optimizers

// Numbers without a row, and the reason.
struct Absent {
  const char* numbers;
  const char* why;
};
std::span<const Absent> absent_facts();

}  // namespace nacre::test
