// The inputs of a program of torch.export, as its exporter writes them into an ONNX file: which constants of the file
// are parameters of the module. Private to torch.cc.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

namespace nacre::tools::onnx_import {

class Signature {
 public:
  explicit Signature(const ::onnx::GraphProto& graph);

  bool empty() const { return entries_.empty(); }
  // torch.export calls a constant's name in calls a placeholder ("p_fc_weight"), and its name in the module a target
  // ("fc.weight").
  bool has(const std::string& placeholder) const { return entries_.contains(placeholder); }
  bool is_parameter(const std::string& placeholder) const;
  // The first of them that is a parameter; "" where none is.
  std::string parameter_of(const std::vector<std::string>& placeholders) const;
  const std::string& target(const std::string& placeholder) const { return entries_.at(placeholder).target; }
  std::string of_target(const std::string& target) const;  // "" where no constant has that name
  std::vector<std::string> parameters() const;             // placeholders

 private:
  struct Entry {
    std::string kind, target;
  };
  void add(const std::string& placeholder, const std::string& kind, const std::string& target);
  void read_lines(const std::string& text);
  void read_specs(const std::string& text);

  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> placeholders_;  // by target
};

// Names of the values that a call reads: "%linear : [..](args = (%x, %p_fc_weight), kwargs = {})" has x, p_fc_weight.
std::vector<std::string> arguments_of_call(const std::string& call);
// Names of the constants that the exporter computed this one of.
std::vector<std::string> folded_from(const ::onnx::ValueInfoProto& value);

}  // namespace nacre::tools::onnx_import
