"""Leaderboards that a team keeps in a Git folder: submissions, checks, and a static site."""
