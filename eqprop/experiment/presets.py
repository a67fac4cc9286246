"""The settings that each data set is trained with unless others are asked for."""

from eqprop.experiment.settings import Experiment, LearningOptions, SettlingOptions

PRESETS = {
    "digits": Experiment(
        "digits",
        settling=SettlingOptions(beta=0.9),
        learning=LearningOptions(epochs=20, batch_size=10, decay=0.9),
    ),
    "mnist": Experiment("mnist"),
    "fashion": Experiment("fashion"),
}
