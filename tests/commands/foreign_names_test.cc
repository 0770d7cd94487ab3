// Tests names that would change how other text is shown: on terminals, in pages, in CSV and in JSON.
#include "tools/base/foreign_text.h"

#include <gtest/gtest.h>

#include "tests/importers/onnx_builder.h"
#include "tests/run_tool.h"
#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/base/table.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {
namespace {

std::string utf8(uint32_t c) {
  if (c < 0x80) return std::string(1, char(c));
  if (c < 0x800) return {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
  return {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
}

const std::vector<uint32_t> kControls = {0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x202A, 0x202B, 0x202C, 0x202D, 0x202E,
                                         0x2066, 0x2067, 0x2068, 0x2069, 0xFEFF, 0x85,   0x9B,   0x2028, 0x61C};

TEST(foreign_names, format_controls_are_written_as_their_number_everywhere) {
  for (const uint32_t control : kControls) {
    const std::string name = "a" + utf8(control) + "b";
    char number[8];
    std::snprintf(number, sizeof number, "\\u%04X", control);
    const std::string shown = std::string("a") + number + "b";
    EXPECT_EQ(with_visible_controls(name), shown);
    EXPECT_EQ(visible_lines(name + "\n"), shown + "\n");
    EXPECT_EQ(escaped(name), shown);
    EXPECT_EQ(xml_escape(name), shown);
    EXPECT_EQ(Json(name).dump(), "\"" + shown + "\"");
    EXPECT_EQ(Json::parse(Json(name).dump()), Json(name));  // to a reader the same name
    Table table(std::vector<Column>{{"name", Align::kLeft}});
    table.add({name});
    EXPECT_TRUE(has(table.text(80), shown));
  }
}

TEST(foreign_names, other_characters_stay) {
  for (const std::string text : {"a b", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xE2\x80\x90", "\xE2\x80\xA6",
                                 "\\u202E", "\xE2\x80", "\xFF", ""})
    EXPECT_EQ(with_visible_controls(text), text);
  EXPECT_EQ(visible_lines("a\tb\nc\x1b[31m\r"), "a\tb\nc\\x1B[31m\\r");
}

TEST(foreign_names, of_a_network_come_escaped_out_of_every_command) {
  const TemporaryDirectory directory;
  const std::string turned = "x" + utf8(0x202E) + "y", hidden = "o" + utf8(0x200B) + "p";
  OnnxBuilder network;
  network.input(turned, {1, 4});
  network.node("Relu", {turned}, {hidden});
  network.output(hidden);
  write_bytes(directory / "n.onnx", network.finish());
  ASSERT_EQ(run_tool({"convert", directory / "n.onnx", "-o", directory / "m.nacre"}).exit_code, 0);
  const std::string model = directory / "m.nacre";
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", directory / "n.onnx"},
      {"inspect", model, "--steps"},
      {"inspect", model, "--json"},
      {"inspect", model, "--html", directory / "h.html", "--svg", directory / "s.svg"},
      {"run", model, "--seed", "1"},
      {"run", model, "--seed", "1", "--json"},
      {"run", model, "--input", "z=z.npy"},
      {"size", model},
      {"check", model, "--json"},
      {"convert", directory / "n.onnx", "--stop-after", "simplify"}};
  for (const std::vector<std::string>& command : commands) {
    const ToolRun run = run_tool(command);
    for (const std::string& raw : {utf8(0x202E), utf8(0x200B)})
      EXPECT_FALSE(has(run.out, raw) || has(run.err, raw)) << command[0] << "\n" << run.out << run.err;
  }
  for (const char* page : {"h.html", "s.svg"}) {
    const std::vector<uint8_t> bytes = read_bytes(directory / page);
    const std::string text(bytes.begin(), bytes.end());
    EXPECT_FALSE(has(text, utf8(0x202E)) || has(text, utf8(0x200B))) << page;
    EXPECT_TRUE(has(text, "\\u202E")) << page;
  }
}

}  // namespace
}  // namespace nacre::tools
