from glowplug.core.facts import Facts
from glowplug.report.facts import facts_text
from unit.samples import CPU


def test_what_was_found_stands_below_the_gpu_type():
    facts = Facts(CPU, cpu_model="A Processor", notes=("something is odd",))
    lines = facts_text(facts, "/opt/python", {"g++": "/usr/bin/g++"}).splitlines()
    assert lines[0] == CPU.gpu_type
    assert [line.split(maxsplit=1) for line in lines[1:]] == [
        ["target", f"cpu ({CPU.device_arch}), linux/{CPU.machine}, {CPU.libc}"],
        ["torch", CPU.torch],
        ["python", CPU.python],
        ["interpreter", "/opt/python"],
        ["GPUs", "none"],
        ["CPU", "A Processor"],
        ["compiler", "/usr/bin/g++"],
        ["note", "something is odd"],
    ]


def test_a_gpu_machine_shows_its_driver_and_a_missing_torch_is_said():
    facts = Facts(CPU._replace(torch="", triton=""), device_count=2, driver="580.95")
    text = facts_text(facts, "/opt/python", {})
    assert "GPUs         2, driver 580.95" in text
    assert "torch        none" in text


def test_a_driver_cannot_steer_the_terminal():
    assert "\x1b" not in facts_text(Facts(CPU, notes=("\x1b[2J",)), "/opt/python", {})
