// Private bytes of another library's storage, as messages have them.
#pragma once

#include "bindings/support/python.hpp"

namespace shmtensor::python {

/// Adds `OutgoingBytes` and its functions. An object is what a reducer puts into a message in place
/// of a storage, whose views in one message then share one copy: a pickler keeps the object in its
/// memo until the message is complete, and each pickler reduces it to a copy of its own. A weak
/// reference in a table of the thread finds it for the next view.
void add_outgoing_bytes(py::module_& module);

}  // namespace shmtensor::python
