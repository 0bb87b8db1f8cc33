"""Readers of other projects' files, which return this library's records."""
