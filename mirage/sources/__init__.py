"""Readers that convert files of other projects to records of this library."""
