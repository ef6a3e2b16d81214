"""Ray: transports of tensors between actors, and what their objects keep allocated."""
