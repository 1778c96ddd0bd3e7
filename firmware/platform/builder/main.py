"""How a tinyhil project is compiled, linked, given its identity and uploaded (runs inside SCons)."""

import sys
from glob import glob
from os.path import isabs, isfile, join

from platformio.proc import exec_command, where_is_program
from platformio.public import list_serial_ports
from SCons.Script import COMMAND_LINE_TARGETS, AlwaysBuild, Builder, Default, DefaultEnvironment

env = DefaultEnvironment()
platform = env.PioPlatform()
board = env.BoardConfig()
arch, hal = board.get("build.arch"), board.get("build.hal")
project_dir = env.subst("$PROJECT_DIR")
prefix = {"avr": "avr-", "arm": "arm-none-eabi-"}[arch]

if env.get("PROGNAME", "program") == "program":
    env.Replace(PROGNAME="firmware")
env.Replace(
    CC=prefix + "gcc",
    CXX=prefix + "g++",
    AS=prefix + "gcc",
    LINK=prefix + "gcc",  # not g++: nothing of libstdc++ may come in
    AR=prefix + "gcc-ar",
    RANLIB=prefix + "gcc-ranlib",
    ARFLAGS=["rc"],
    OBJCOPY=prefix + "objcopy",
    OBJDUMP=prefix + "objdump",
    GDB=prefix + "gdb",
    SIZETOOL=prefix + "size",
    PROGSUFFIX=".elf",
    SIZECHECKCMD="$SIZETOOL -A -d $SOURCES",
    SIZEPRINTCMD="$SIZETOOL -B -d $SOURCES",
    SIZEPROGREGEXP=r"^(?:\.isr_vector|\.vectors|\.text|\.rodata|\.init_array|\.fini_array|\.ARM\.ex\w+|\.data)\s+(\d+).*",
    SIZEDATAREGEXP=r"^(?:\.data|\.bss|\.noinit|\.guard)\s+(\d+).*",
)


def announce_compiler():
    """Say which compiler this really is: sizes of different versions are not comparable."""
    compiler = where_is_program(env["CC"], env["ENV"]["PATH"])
    version = "?"
    if isabs(compiler):
        version = exec_command([compiler, "-dumpfullversion", "-dumpversion"])["out"].strip()
    origin = "package" if compiler.startswith(env.subst("$PROJECT_PACKAGES_DIR")) else "PATH"
    print(f"TOOLCHAIN: {env['CC']} {version} ({compiler}, {origin})")


def set_flags():
    machine = board.get("build.machine").split()
    optimize = ["-O2"]
    env.Append(
        ASFLAGS=[*machine, "-c"],
        ASPPFLAGS=["-x", "assembler-with-cpp"],
        CFLAGS=["-std=gnu11"],
        CCFLAGS=[
            *machine,
            *optimize,
            "-gdwarf-4",  # avr-gcc's own default is stabs, which hides the lines from `harness/measure/crash.py`
            "-Wall",
            "-Wextra",
            "-ffunction-sections",
            "-fdata-sections",
            "-ffp-contract=off",  # the numeric contract: no fused multiply-add
            "-fno-strict-aliasing",  # tensors of several types share the bytes of one arena
            *(["-fstack-usage"] if arch == "arm" else []),  # avr-gcc knows no stack usage
        ],
        CXXFLAGS=["-std=gnu++14", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"],
        CPPDEFINES=[("F_CPU", "$BOARD_F_CPU"), *board.get("build.defines")],
        CPPPATH=[project_dir],
        LINKFLAGS=[*machine, *optimize, "-Wl,--gc-sections", '-Wl,-Map="$BUILD_DIR/${PROGNAME}.map"'],
        # an archive: the engine of somebody else's that stands in the model's place
        LIBS=[*(env.File(path) for path in glob(join(project_dir, "model", "*.a"))), "m"],
    )
    flash, ram = int(board.get("upload.maximum_size")), int(board.get("upload.maximum_ram_size"))
    reserve = int(board.get("build.stack_reserve"))
    if arch == "avr":
        # avr-libc's script has regions far larger than the chip: make the linker refuse what does not fit.
        limits = {"__DATA_REGION_LENGTH__": ram - reserve, "__TEXT_REGION_LENGTH__": flash}
        ends = [name.partition("=")[2] for name in board.get("build.defines") if name.startswith("HIL_RAM_END=")]
        if ends:  # of a chip with less RAM than the one that is compiled for
            limits["__stack"] = ends[0]
    else:
        limits = {"_min_stack": reserve, "_ram_bytes": ram}
        if board.get("build.flash_start", ""):
            limits["_flash_start"] = board.get("build.flash_start")
        env.Append(LINKFLAGS=["--specs=nano.specs", "--specs=nosys.specs", "-nostartfiles"], LIBPATH=[project_dir])
        env.Replace(LDSCRIPT_PATH=join(project_dir, "firmware", "hal", hal, f"{hal}.ld"))
    env.Append(LINKFLAGS=[f"-Wl,--defsym={name}={value}" for name, value in limits.items()])


def choose_sources():
    """firmware/main.cpp, the wire and this chip's folder (src_dir is firmware/), and the generated model."""
    env.Replace(SRC_FILTER=["+<main.cpp>", "+<wire/*.cpp>", f"+<hal/{hal}/>"])
    if not glob(join(project_dir, "model", "*.cpp")):
        sys.stderr.write(f"error: no model/*.cpp in {project_dir}; run: hil generate\n")
        env.Exit(1)
    env.BuildSources(join("$BUILD_DIR", "model"), join("$PROJECT_DIR", "model"), ["+<*.cpp>"])


def build_elf():
    elf = env.BuildProgram()
    script = join(platform.get_dir(), "image_hash.py")
    env.AddPostAction(elf, env.VerboseAction(f'"$PYTHONEXE" "{script}" $TARGET', "Identifying $TARGET"))
    # SCons does not follow INCLUDE in linker scripts.
    env.Depends(elf, [script, *glob(join(project_dir, "firmware", "hal", "*", "*.ld"))])
    return elf


def find_upload_port(target, source, env):
    """PlatformIO's own finder falls back to any port at all; accept only the one board that matches."""
    if board.get("upload.require_upload_port", False) and not env.subst("$UPLOAD_PORT"):
        wanted = {(int(vid, 16), int(pid, 16)) for vid, pid in board.get("build.hwids", [])}
        found = [port for port in list_serial_ports(as_objects=True) if (port.vid, port.pid) in wanted]
        if len(found) != 1:
            listing = ", ".join(port.device for port in found) or "none"
            sys.stderr.write(
                f"error: {board.id}: {len(found)} serial ports match ({listing}); "
                "use --upload-port /dev/serial/by-id/...\n"
            )
            env.Exit(1)
        env.Replace(UPLOAD_PORT=found[0].device)
    if board.get("upload.use_1200bps_touch", False):
        env.TouchSerialPort("$UPLOAD_PORT", 1200)


def bossac_port(env):
    port = env.subst("$UPLOAD_PORT")
    return port[len("/dev/") :] if port.startswith("/dev/tty") else port


def set_uploader(protocol):
    packaged = join(platform.get_package_dir("tool-avrdude") or "", "avrdude.conf")
    configuration = f'-C "{packaged}" ' if isfile(packaged) else ""
    openocd_target = board.get("debug.openocd_target", "")
    commands = {
        "arduino": f"avrdude {configuration}-p $BOARD_MCU -c arduino -D -P $UPLOAD_PORT -b $UPLOAD_SPEED "
        "-U flash:w:$SOURCE:i",
        # without --reset, which in bossac 1.8 to 1.9.1 loses the boot bit (BOSSA #125): opening the port resets
        "sam-ba": "bossac --port=${__bossac_port(__env__)} --usb-port=false --erase --write --verify --boot=1 $SOURCE",
        "serial": "stm32flash -b $UPLOAD_SPEED -v -g 0x0 -w $SOURCE $UPLOAD_PORT",
    }
    for probe, transport in (("stlink", "hla_swd"), ("cmsis-dap", "swd")):
        commands[probe] = (
            f'openocd -f interface/{probe}.cfg -c "transport select {transport}" -f target/{openocd_target}.cfg '
            '-c "program {$SOURCE} verify reset exit"'
        )
    if protocol in commands:
        env.Replace(__bossac_port=bossac_port, UPLOADER=commands[protocol].split()[0], UPLOADCMD=commands[protocol])
    elif protocol != "custom":
        sys.stderr.write(f"error: {board.id}: unknown upload_protocol {protocol}\n")
        env.Exit(1)


announce_compiler()
set_flags()
env.Append(
    BUILDERS={
        "ElfToHex": Builder(
            suffix=".hex",
            action=env.VerboseAction("$OBJCOPY -O ihex -R .eeprom $SOURCES $TARGET", "Building $TARGET"),
        ),
        "ElfToBin": Builder(
            suffix=".bin",
            action=env.VerboseAction("$OBJCOPY -O binary -R .eeprom $SOURCES $TARGET", "Building $TARGET"),
        ),
    }
)
family = board.get("build.uf2_family", "")
if family:
    converter = join(platform.get_dir(), "uf2.py")
    env["BUILDERS"]["ElfToUf2"] = Builder(
        suffix=".uf2",
        action=env.VerboseAction(f'"$PYTHONEXE" "{converter}" $SOURCE $TARGET {family}', "Building $TARGET"),
    )
stem = join("$BUILD_DIR", "${PROGNAME}")
if "nobuild" in COMMAND_LINE_TARGETS:
    elf, hex_file, bin_file = stem + ".elf", stem + ".hex", stem + ".bin"
    uf2_files = [stem + ".uf2"] if family else []
else:
    choose_sources()
    elf = build_elf()
    hex_file, bin_file = env.ElfToHex(stem, elf), env.ElfToBin(stem, elf)
    env.Depends([hex_file, bin_file], "checkprogsize")
    uf2_files = env.ElfToUf2(stem, elf) if family else []
AlwaysBuild(env.Alias("nobuild", hex_file))
program = env.Alias("buildprog", [hex_file, bin_file, *uf2_files])
size = env.AddPlatformTarget(
    "size", elf, env.VerboseAction("$SIZEPRINTCMD", "Calculating size $SOURCE"), "Program Size", "Static flash and RAM"
)
protocol = env.subst("$UPLOAD_PROTOCOL")
set_uploader(protocol)
payload = {"arduino": hex_file, "sam-ba": bin_file, "serial": bin_file}.get(protocol, elf)
actions = [env.VerboseAction("$UPLOADCMD", "Uploading $SOURCE")]
if protocol != "custom":
    actions.insert(0, env.VerboseAction(find_upload_port, "Looking for the board..."))
env.AddPlatformTarget("upload", payload, actions, "Upload")
Default([program, size])
