"""Interrupt a run of the toolkit at a point, run the same command again, and compare with an undisturbed run."""
