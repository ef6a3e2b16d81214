"""A load as a data loader's, for as long as one likes: what it costs at the end is what it cost at the start."""
