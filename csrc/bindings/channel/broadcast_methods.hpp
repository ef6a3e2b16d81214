// The methods of broadcasts and their readers.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

extern PyMethodDef g_broadcast_methods[];
extern PyMethodDef g_reader_methods[];

}  // namespace shmtensor::python
