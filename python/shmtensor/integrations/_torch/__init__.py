"""The parts of the integration of torch. Importing them imports torch."""
