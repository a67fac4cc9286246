"""The settings that each data set is trained with unless others are asked for."""

from eqprop.experiment.settings import Experiment, LearningOptions

PRESETS = {
    "digits": Experiment("digits", learning=LearningOptions(epochs=40, batch_size=10, decay=0.97)),
    "mnist": Experiment("mnist"),
    "fashion": Experiment("fashion"),
}
