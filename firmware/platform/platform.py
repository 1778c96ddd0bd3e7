"""Where compilers and upload tools come from, decided before PlatformIO looks for packages.

Policy (`custom_toolchain` in platformio.ini, or HIL_TOOLCHAIN in the environment):
  auto     an installed PlatformIO package, else a program in PATH, else a download (the default)
  path     programs in PATH only, installed packages are ignored
  package  PlatformIO's own packages only
With HIL_OFFLINE=1, or when PlatformIO's registry does not answer, a missing tool is one error at once instead of
a minute of attempts.
"""

import importlib.util
import json
import os
import re
import shutil
import threading
import urllib.error
import urllib.request

from platformio.dependencies import get_core_dependencies
from platformio.exception import UserSideException
from platformio.package.manager.core import get_core_package_dir
from platformio.public import PlatformBase

REGISTRY = "https://api.registry.platformio.org/"
REGISTRY_DEADLINE_S = 3.0
COMPILERS = {  # arch: (package, program, Debian packages)
    "avr": ("toolchain-atmelavr", "avr-gcc", "gcc-avr avr-libc binutils-avr"),
    "arm": ("toolchain-gccarmnoneeabi", "arm-none-eabi-gcc", "gcc-arm-none-eabi libnewlib-arm-none-eabi"),
}
UPLOADERS = {  # upload protocol: (package, program, Debian package)
    "arduino": ("tool-avrdude", "avrdude", "avrdude"),
    "sam-ba": ("tool-bossac", "bossac", "bossa-cli"),
    "stlink": ("tool-openocd", "openocd", "openocd"),
    "cmsis-dap": ("tool-openocd", "openocd", "openocd"),
    "serial": ("tool-stm32flash", "stm32flash", "stm32flash"),
}
SCONS_SHIM = '''\
"""PlatformIO's build engine, taken from the interpreter's own packages."""
import sys

try:
    import SCons.Script
except ImportError:
    sys.exit("error: %s has no SCons; run: %s -m pip install scons" % (sys.executable, sys.executable))
SCons.Script.main()
'''


def registry_answers():
    """True if the registry answers within the deadline. A thread, because name lookup has no time-out of its own."""
    if os.environ.get("HIL_OFFLINE", "").lower() in ("1", "true", "yes"):
        return False
    answered = threading.Event()

    def ask():
        try:
            urllib.request.urlopen(REGISTRY, timeout=REGISTRY_DEADLINE_S).close()
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                return
        except OSError:
            return
        answered.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(REGISTRY_DEADLINE_S)
    return answered.is_set()


def place_scons_shim(packages_dir):
    """Put a `tool-scons` package that starts the interpreter's own SCons into a private core directory."""
    version = re.search(r"\d+\.\d+\.\d+", get_core_dependencies()["tool-scons"]).group(0)
    spec = {"owner": "platformio", "id": None, "name": "tool-scons", "requirements": None, "uri": None}
    files = {
        ".piopm": json.dumps({"type": "tool", "name": "tool-scons", "version": version, "spec": spec}),
        "package.json": json.dumps(
            {"name": "tool-scons", "version": version, "description": "SCons of the interpreter", "system": "*"}
        ),
        ".piokeep": "",  # survives `pio system prune`
        "scons.py": SCONS_SHIM,
    }
    final = os.path.join(packages_dir, "tool-scons")
    partial = f"{final}.{os.getpid()}"
    os.makedirs(partial, exist_ok=True)
    for name, text in files.items():
        with open(os.path.join(partial, name), "w", encoding="utf-8") as stream:
            stream.write(text)
    try:
        os.rename(partial, final)
    except OSError:  # another process was first
        shutil.rmtree(partial)


class TinyhilPlatform(PlatformBase):
    def configure_default_packages(self, options, targets):
        # super() is not called: it would require every uploader as soon as one is needed.
        board = options.get("board")
        if not board:
            raise UserSideException("tinyhil: set `board` in platformio.ini")
        manifest = self.board_config(board)
        self._require(COMPILERS[manifest.get("build.arch")], "compiler", board)
        if any("upload" in target for target in targets):
            protocol = options.get("upload_protocol") or manifest.get("upload.protocol")
            if protocol in UPLOADERS:
                self._require(UPLOADERS[protocol], "upload tool", board)
        self._require_scons()

    def get_installed_packages(self, *args, **kwargs):
        # PlatformIO puts every installed package of this list in front of PATH.
        return [] if self._policy() == "path" else super().get_installed_packages(*args, **kwargs)

    def _policy(self):
        policy = os.environ.get("HIL_TOOLCHAIN")
        if not policy and self.project_env:
            policy = self.config.get(f"env:{self.project_env}", "custom_toolchain", None)
        policy = policy or "auto"
        if policy not in ("auto", "path", "package"):
            raise UserSideException(f"custom_toolchain is {policy!r}, must be auto, path or package")
        return policy

    def _require(self, tool, what, board):
        package, program, debian = tool
        policy = self._policy()
        if policy != "path" and self.get_package(package):
            return
        if policy != "package" and shutil.which(program):
            return
        if policy != "path" and registry_answers():
            self.packages[package]["optional"] = False  # PlatformIO downloads it
            return
        network = "" if policy == "path" else " and PlatformIO's registry does not answer"
        place = "is not used (policy package)" if policy == "package" else "is not in PATH"
        raise UserSideException(f"{board}: {what} {program} {place}{network}; run: sudo apt-get install {debian}")

    def _require_scons(self):
        if get_core_package_dir("tool-scons", auto_install=False):
            return
        core_dir = os.path.realpath(self.config.get("platformio", "core_dir"))
        private = core_dir != os.path.realpath(os.path.expanduser("~/.platformio"))
        if private and importlib.util.find_spec("SCons"):
            place_scons_shim(self.config.get("platformio", "packages_dir"))
        elif not registry_answers():
            raise UserSideException(
                "PlatformIO's package tool-scons is missing and its registry does not answer; run: "
                "pip install scons && PLATFORMIO_CORE_DIR=$PWD/.pio/core pio run"
            )
