"""Writes the examples that stand in comments of the installed headers as two files to compile.

    header_examples.py INCLUDE OUT      INCLUDE/nacre has the headers; writes OUT/examples.cc and OUT/examples.c

An example is a comment line `Example:` and the lines after it that are indented by three spaces or more. Each becomes the
body of a function. Names that it does not declare (model, kernels, memory, next_batch, ...) are declared below, as a
program would have them. Compilers name the header's own line (#line). Prints the number of examples in C++ and in C.
"""
import re
import sys
from pathlib import Path

CPP = """
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace example {
using namespace nacre;

// The result of an example, made of a Status or a Code.
struct Result {
  Result() = default;
  Result(Code) {}
  Result(Status) {}
};

extern std::span<const std::byte> bytes, part, from;  // a model file, or a part of one
extern std::span<std::byte> block, all, into;         // memory
extern std::span<const float> pixels;
extern std::span<float> scores;
extern uint32_t index, mine, count, steps_done;
extern uint64_t file_bytes;
extern bool stop_wanted;
extern const uint8_t golden_inputs[64], golden_outputs[64];
extern const KernelSet* const kernels[2];
extern Model model, trial;
extern Program program;
extern Trainer trainer;
extern Trainer::Report report;
extern Sizes sizes;
extern Memory memory;
extern Storage storage;
extern NorFlash flash;
extern Checkpoint checkpoint;
extern ModelSlots slots;
extern ModelSlots::Found found;
extern ThreadPool pool;
extern std::vector<SumRun> runs;
extern const StaticProgram kws_program;
extern const StaticTraining kws_training;
extern cuda::Device device;
#if __has_include(<nacre/mpi.h>)
extern mpi::Ranks ranks;
#endif

bool next_chunk(std::span<std::byte> input);
bool next_batch(std::span<std::byte> data, std::span<std::byte> labels);
void use(std::span<const std::byte> output);
bool receive(std::span<const std::byte>* part);
bool improved(const Program& infer);
Status micro_batch(uint32_t number);
void send_to_all(std::span<const std::byte> sums);
std::span<const std::byte> block_of(uint32_t machine);
bool write_8(uintptr_t address, const void* granule);
bool erase_sector(uintptr_t address);
void print_text(const char* text);
void stop();
"""

C = """
#include <stdio.h>
#include <string.h>

extern nacre_model model;
extern nacre_program program;
extern nacre_trainer trainer;
extern nacre_sizes sizes;
extern nacre_storage storage;
extern nacre_report report;
extern const struct nacre_static_program kws_program;
extern const struct nacre_static_training kws_training;
extern const nacre_kernels* const kernels[2];
extern const void *bytes, *part;
extern void *memory, *all;
extern size_t size, memory_size;
extern uint64_t file_bytes;
extern uint32_t mine, count, steps_done;
extern float pixels[64], scores[10];
extern const int16_t samples[320];
extern int communicator;

int next_chunk(void* input);
int next_batch(void* data, void* labels);
void use(const void* output);
int receive(const void** part, size_t* size);
int micro_batch(uint32_t number);
void send_to_all(const void* sums, size_t bytes);
const void* block_of(uint32_t machine);
"""


def is_of_c(text):
    return re.search(r'^extern "C"', text, re.MULTILINE) is not None and re.search(r"^namespace", text, re.MULTILINE) is None


def examples(text):
    """Yields the number of the first line of each example's code, and its lines."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not re.fullmatch(r"\s*(//|\*|/\*) Example:", line):
            continue
        code = []
        for after in lines[number:]:
            inside = re.match(r"\s*(?://|\*)   (.*)", after)
            if inside is None:
                break
            code.append(inside.group(1))
        yield number + 1, code


def main():
    include, out = Path(sys.argv[1]), Path(sys.argv[2])
    written, counts = {True: [], False: []}, {True: 0, False: 0}
    for path in sorted((include / "nacre").rglob("*.h")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(include)
        of_c = is_of_c(text)
        for number, code in examples(text):
            if not code:
                sys.exit(f"{name}:{number}: error: an example without code")
            counts[of_c] += 1
            head = f"int example_{counts[of_c]}(void);\nint example_{counts[of_c]}(void)" if of_c else f"Result example_{counts[of_c]}()"
            end = "  return 0;" if of_c else "  return {};"
            written[of_c] += [head + " {", f'#line {number} "{path}"', *code, end, "}"]
    public = sorted(p.name for p in (include / "nacre").glob("*.h"))
    c_headers = [name for name in public if name.endswith("_c.h")]
    for of_c, headers, declared in ((False, [n for n in public if n not in c_headers], CPP), (True, c_headers, C)):
        text = "".join(f"#include <nacre/{name}>\n" for name in headers) + declared + "\n".join(written[of_c]) + "\n"
        (out / ("examples.c" if of_c else "examples.cc")).write_text(text + ("" if of_c else "}  // namespace example\n"), encoding="utf-8")
    print(counts[False], counts[True])


if __name__ == "__main__":
    main()
