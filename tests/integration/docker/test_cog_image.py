"""The Cog-like image is one: tini, Cog's own server, and the labels that `cog build` writes."""

import json

from glowplug.workload.cog_image import read_cog_labels
from integration.services import free_port

CLIENT = """
import json, subprocess, urllib.error, urllib.request

def ask(path, body=None):
    request = urllib.request.Request("http://127.0.0.1:" + os.environ["PORT"] + path, body, {{"Content-Type": "application/json"}})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)

server = subprocess.Popen({command!r}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
status = ""
while status != "READY":
    assert server.poll() is None and status != "SETUP_FAILED"
    time.sleep(0.05)
    try:
        status = ask("/health-check")["status"]
    except OSError:
        pass
(out / "prediction").write_text(json.dumps(ask("/predictions", b'{{"input": {{"size": 4}}}}')))
try:
    ask("/predictions", b'{{"input": {{"size": 1000}}}}')
except urllib.error.HTTPError as error:
    (out / "refused").write_text(str(error.code))
server.terminate()
sys.exit(server.wait())
"""


def test_its_own_command_is_cogs_server(runs, cog_image):
    with runs.engine(cog_image) as engine:
        code = CLIENT.format(command=engine.image.command)
        done = runs.within(engine, code, env={"PORT": str(free_port()), "TORCHINDUCTOR_COMPILE_THREADS": "1"})
    assert (done.status, done.log) == (0, "")
    prediction = json.loads((done.out / "prediction").read_text())
    assert prediction["status"] == "succeeded"
    assert isinstance(prediction["output"], float)
    assert (done.out / "refused").read_text() == "422"


def test_its_labels_name_predictor_and_inputs(runs, cog_image):
    with runs.engine(cog_image) as engine:
        cog = read_cog_labels(engine.image.labels)
    assert cog is not None
    assert cog.ref == "predict.py:Predictor"
    assert [one.name for one in cog.inputs] == ["size"]
