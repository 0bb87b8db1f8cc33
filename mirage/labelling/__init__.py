"""Blind labelling of answers or pairs of answers by people, on a page in a browser."""
