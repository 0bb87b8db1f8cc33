"""Readers of other projects' files, each giving this library's records."""
