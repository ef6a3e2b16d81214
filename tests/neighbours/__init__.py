"""Neighbours that do not mean well, limits and namespaces: what a session withstands."""
