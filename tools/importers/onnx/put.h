// Scatters that put numbers at places of run time: ops/put.cc. Private to tools/importers.
#pragma once

namespace nacre::tools::onnx_import {

class Import;
class Source;

void put_in_cache_at_run_time(Import& import, const Source& source);  // TensorScatter
void put_elements_at_run_time(Import& import, const Source& source);  // ScatterElements without a sum
void put_rows_at_run_time(Import& import, const Source& source);      // ScatterND without a sum

}  // namespace nacre::tools::onnx_import
