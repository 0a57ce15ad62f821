"""Conditions of a hostile but normal world, put upon a host of the fleet from outside."""
