"""A task and data for gan_trainer: `task.py` says what is trained, `data.py` on what."""

__version__ = "0.1.0"
