"""Cells of the sweep: pairs of texts that are copies of each other, and sets of texts that are none."""
