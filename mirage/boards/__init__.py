"""Boards of a team: submissions in a Git folder, their checks, and a static site."""
