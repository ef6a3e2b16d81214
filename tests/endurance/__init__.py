"""A load as a data loader's, for as long as one likes: it costs at the end what it cost at the start."""
