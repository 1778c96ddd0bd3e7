"""A library for somebody else's firmware, built by their own CMake."""

import zipfile

import tinyhil

path = tinyhil.load("digits_mlp").export("cmake", "digits.zip", formats="fixed8", name="digits")
names = zipfile.ZipFile(path).namelist()
print(*sorted(name for name in names if "_kernels/" not in name), sep="\n")
header = zipfile.ZipFile(path).read("digits/src/digits.h").decode()
print(next(line for line in header.splitlines() if line.startswith("int digits_predict(")))
