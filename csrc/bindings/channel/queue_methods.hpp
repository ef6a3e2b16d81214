// The methods of queues.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

extern PyMethodDef g_queue_methods[];

}  // namespace shmtensor::python
