// Reads metadata_props of ONNX messages. ONNX 1.16 added them to graphs, nodes and values. An older library of ONNX
// messages keeps such fields as unknown fields, under their numbers in onnx.proto of v1.22.0.
#pragma once

#include <string>

#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

namespace nacre::tools::onnx_import {

inline constexpr int kNodeMetadata = 9, kGraphMetadata = 16, kValueMetadata = 4;  // field numbers

// Returns the text of the first entry with the key `key`, or "" if there is none.
template <class Message>
std::string metadata_of(const Message& message, int field, const char* key) {
  if constexpr (requires { message.metadata_props(); }) {
    for (const auto& entry : message.metadata_props())
      if (entry.key() == key) return entry.value();
  } else {
    const google::protobuf::UnknownFieldSet& fields = message.unknown_fields();
    for (int i = 0; i < fields.field_count(); ++i) {
      const google::protobuf::UnknownField& f = fields.field(i);
      if (f.number() != field || f.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
      ::onnx::StringStringEntryProto entry;
      if (entry.ParsePartialFromString(f.length_delimited()) && entry.key() == key) return entry.value();
    }
  }
  return "";
}

}  // namespace nacre::tools::onnx_import
