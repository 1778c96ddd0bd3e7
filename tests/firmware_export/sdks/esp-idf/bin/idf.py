#!/usr/bin/env python3
"""`idf.py -C FOLDER build`: the project is configured and built."""

import subprocess
import sys

option, folder, action = sys.argv[1:]
assert (option, action) == ("-C", "build")
subprocess.run(["cmake", "-S", folder, "-B", f"{folder}/build"], check=True)
subprocess.run(["cmake", "--build", f"{folder}/build"], check=True)
