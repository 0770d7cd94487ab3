/* Trains on several machines by MPI, for C. */
#pragma once

#include "ports/mpi/nacre_mpi.h"
