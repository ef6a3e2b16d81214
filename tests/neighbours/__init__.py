"""Sessions beside hostile processes, under limits and in namespaces."""
