"""Every fault that the toolkit names: how it is made, what is said, what is left, and what a plain rerun does then."""
