# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow does in the environment: a product and mixed-precision steps on each device, as training would.

Null means that there is no environment, or that no TensorFlow is planned for it.
"""

from typing import Any, Sequence

from ..host.as_user import ordinary_account, run_as
from ..host.files import below, exists
from ..host.patterns import lazily
from .software import record_of

# The import alone takes 5 s from a warm disk; each card's first convolution loads cuDNN.
TENSORFLOW_SECONDS = 240
# Without CUDA's libraries TensorFlow goes on without cards. It names each of them, and newer releases none.
LOST_LIBRARY = lazily(r"Could not load dynamic library '([^'\n]{1,100})'")
LOST_SOME = "Cannot dlopen some GPU libraries"

# Runs in the venv and prints one JSON line. Public functions only, those that TensorFlow 2.5 to 2.20 share; no Keras,
# whose releases differ. The convolution is what loads cuDNN.
PROGRAM = """
import json, sys
import tensorflow as tf
found = {"version": tf.__version__, "built_for": "cuda" if tf.test.is_built_with_cuda() else "cpu", "devices": []}
cards = tf.config.list_physical_devices("GPU")
found["cards"] = len(cards)
if "cpu" in sys.argv[1:]:
    tf.config.set_visible_devices([], "GPU")
    cards = []
for card in cards:
    tf.config.experimental.set_memory_growth(card, True)
def step(filters):
    with tf.GradientTape() as tape:
        images = tf.cast(tf.ones([4, 8, 8, 3]), tf.float16)
        seen = tf.nn.conv2d(images, tf.cast(filters, tf.float16), 1, "SAME")
        loss = tf.reduce_mean((tf.cast(seen, tf.float32) - 1.0) ** 2)
    filters.assign_sub(0.1 * tape.gradient(loss, filters))
    return float(loss)
for place in ["CPU:0"] + ["GPU:%d" % number for number in range(len(cards))]:
    row = {"device": place.lower()}
    try:
        with tf.device("/" + place):
            ones = tf.ones([64, 64])
            row["product"] = bool(tf.reduce_all(tf.linalg.matmul(ones, ones) == 64.0))
            filters = tf.Variable(tf.zeros([3, 3, 3, 4]))
            first, last = [step(filters) for _ in range(3)][::2]
            row["learns"] = last < 0.5 * first
            row["there"] = ones.device.lower().endswith(place.lower())
    except Exception as error:
        row["error"] = "%s: %s" % (type(error).__name__, str(error)[:300])
    found["devices"].append(row)
print(json.dumps(found))
"""


def read_tensorflow(root: str, venv: str, launcher: str, user: str, busy: Sequence[str] = ()) -> Any:
    """`{version, built_for, cards, devices: [{device, product, learns, there} or {device, error}], lost, busy}`.

    built_for  "cuda" or "cpu"      cards  how many TensorFlow finds      lost  libraries of CUDA that it did not find
    there      whether the product lies on the device; False where TensorFlow silently took another one

    As for training, the launcher starts it and it belongs to `user`. While others compute, no card is touched. Raises
    OSError with its last words if it does not answer.
    """
    python = below(root, venv + "/bin/python")
    if not exists(root, venv + "/bin/python"):
        return None
    # -I: neither the caller's environment nor its folder affects what is imported. -B: a check writes nothing.
    command = [python, "-I", "-B", "-c", PROGRAM] + (["cpu"] if busy else [])
    if exists(root, launcher):
        command = [below(root, launcher), "--", *command]
    done = run_as(command, ordinary_account(user, root), TENSORFLOW_SECONDS)
    answer = record_of(done, venv + "/bin/python")
    answer["lost"] = sorted(set(LOST_LIBRARY.findall(done.stderr))) or [LOST_SOME] * (LOST_SOME in done.stderr)
    if busy:
        answer["busy"] = "; ".join(busy)
    return answer
