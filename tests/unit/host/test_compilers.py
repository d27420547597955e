from glowplug.host.compilers import find_compilers


def program(folder, name):
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return str(file)


def test_only_what_is_on_path_is_found(tmp_path):
    gxx = program(tmp_path / "bin", "g++")
    program(tmp_path / "elsewhere", "nvcc")
    assert find_compilers({"PATH": str(tmp_path / "bin")}) == {"g++": gxx}


def test_the_compilers_that_torch_is_told_to_use_come_first(tmp_path):
    mine, gcc = program(tmp_path, "g++-13"), program(tmp_path, "gcc")
    found = find_compilers({"PATH": str(tmp_path), "CXX": "g++-13", "CC": mine})
    assert list(found.items()) == [("g++-13", mine), (mine, mine), ("gcc", gcc)]


def test_a_file_that_cannot_be_run_is_no_compiler(tmp_path):
    (tmp_path / "g++").write_text("")
    assert find_compilers({"PATH": str(tmp_path)}) == {}
