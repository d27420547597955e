import pytest

from glowplug.host.cpu import Cpu, parse_cpu, read_cpu

AVX2 = "fpu sse4_2 avx avx2 fma f16c bmi2"
AVX512 = f"{AVX2} avx512f avx512cd avx512dq avx512bw avx512vl"


def x86(flags, *, vendor="GenuineIntel", family=6, model=106):
    first = (
        f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: Some Processor @ 2.60GHz\nflags\t\t: {flags}\n"
    )
    return f"{first}\n{first.replace(flags, 'fpu')}"


@pytest.mark.parametrize(
    ("flags", "isa"),
    [
        ("fpu sse4_2 avx", "default"),
        (AVX2, "avx2"),
        (f"{AVX2} avx_vnni", "avx2"),
        (f"{AVX2} avx512f avx512cd", "avx2"),  # Knights Landing: no kernel of ATen's for it
        (AVX512, "avx512"),
        (f"{AVX512} avx512_bf16", "avx512_bf16"),
        (f"{AVX512} avx512_vnni", "avx512_vnni"),
        (f"{AVX512} avx512_vnni avx512_bf16", "avx512_vnni_bf16"),
        (f"{AVX512} avx512_vnni avx512_bf16 amx_bf16 amx_tile amx_int8", "avx512_vnni_bf16_amx"),
        (f"{AVX512} amx_tile", "avx512"),  # Inductor's AMX asks for VNNI
        (f"{AVX512} avx512_vnni avx512_bf16 amx_tile amx_fp16", "avx512_vnni_bf16_amx_amxfp16"),
    ],
)
def test_x86_instruction_set(flags, isa):
    assert parse_cpu("x86_64", x86(flags)) == Cpu(isa, "Some Processor @ 2.60GHz")


def test_granite_rapids_has_the_flag_that_linux_does_not_list():
    flags = f"{AVX512} avx512_vnni avx512_bf16 amx_tile"
    assert parse_cpu("x86_64", x86(flags, model=173)).isa == "avx512_vnni_bf16_amx_amxfp16"
    assert parse_cpu("x86_64", x86(flags, model=143)).isa == "avx512_vnni_bf16_amx"  # Sapphire Rapids
    assert parse_cpu("x86_64", x86(flags, vendor="AuthenticAMD", model=173)).isa == "avx512_vnni_bf16_amx"


@pytest.mark.parametrize(
    ("features", "sve_bytes", "isa"),
    [
        ("fp asimd crc32 atomics", "", "neon"),
        ("fp asimd sve", "64", "neon"),  # A64FX: no bfloat16, and Inductor asks for both
        ("fp asimd bf16", "", "neon"),
        ("fp asimd sve bf16", "32", "sve256"),  # Graviton 3
        ("fp asimd sve sve2 bf16", "16", "sve128_sve2"),  # Graviton 4, Grace
        ("fp", "", "default"),
    ],
)
def test_arm_instruction_set(features, sve_bytes, isa):
    cpuinfo = f"processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: {features}\nCPU part\t: 0xd40\n"
    assert parse_cpu("aarch64", cpuinfo, sve_bytes=sve_bytes) == Cpu(isa, "")


def test_other_machines_are_not_vectorised():
    assert parse_cpu("riscv64", "processor\t: 0\nisa\t: rv64gc\n").isa == "default"


def test_files_of_a_machine(tmp_path):
    (tmp_path / "proc/sys/abi").mkdir(parents=True)
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nFeatures\t: asimd sve sve2 bf16\n")
    (tmp_path / "proc/sys/abi/sve_default_vector_length").write_text("16\n")
    assert read_cpu("aarch64", tmp_path).isa == "sve128_sve2"
    assert read_cpu("x86_64", tmp_path / "nothing") == Cpu("default", "")
