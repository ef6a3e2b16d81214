// Entries that a reader copies while a writer may be writing them.
#pragma once

#include "channel/queue.hpp"
#include "queue/layout.hpp"

namespace shmtensor {

/// All stores of `write_entry` release, and all loads of `copy_entry` acquire. So a reader that has
/// copied anything of a later message finds, in the word that it checks afterwards, what the writer
/// stored there before it wrote the entry.
///
/// The ticket is named in the entry before it is issued. Throws OutOfMemory.
void write_entry(MessageEntry& entry, const Outgoing& message);
/// All but the block.
void copy_entry(const MessageEntry& entry, Incoming& message) noexcept;

}  // namespace shmtensor
