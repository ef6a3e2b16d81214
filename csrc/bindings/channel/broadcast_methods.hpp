// The methods of broadcasts and their readers, and of the newest value that processes set.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

extern PyMethodDef g_broadcast_methods[];
extern PyMethodDef g_reader_methods[];
extern PyMethodDef g_latest_methods[];
extern PyGetSetDef g_latest_properties[];

}  // namespace shmtensor::python
