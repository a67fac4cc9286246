"""What is kept on disk: atomic files, checkpoints, the folders of runs."""

from eqprop.store.model import load, predict, save
from eqprop.store.run import Follower, Run

__all__ = ["Follower", "Run", "load", "predict", "save"]
