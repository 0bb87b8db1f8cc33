"""Mirage ranks retrieval-augmented generation systems in 18 languages."""
