// The handle of cuda_c.h. Private to cuda_c.cc, and to tests that open it on another driver.
#pragma once

#include "ports/cuda/c_api/cuda_c.h"
#include "ports/cuda/cuda_port.h"

struct nacre_cuda {
  nacre::cuda::Device device;
};
