/* Training on several machines, for C. */
#pragma once

#include "ports/mpi/nacre_mpi.h"
