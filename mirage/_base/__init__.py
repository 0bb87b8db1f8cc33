"""Foundations of the library, which all other packages use; not part of the public API."""
