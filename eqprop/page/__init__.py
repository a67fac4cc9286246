"""The live page: watch any system settle, be nudged and learn, in a browser or in a notebook.

scene.py says what is watched, course.py settles it frame by frame, session.py answers what a page asks; server.py
brings the answers to a browser, widget.py to a notebook. The page itself is in static/.
"""

from eqprop.page.choices import Choice, Pair
from eqprop.page.scene import Scene, scene_of, scene_of_data, scene_of_run
from eqprop.page.session import Session

__all__ = ["Choice", "Pair", "Scene", "Session", "scene_of", "scene_of_data", "scene_of_run"]
