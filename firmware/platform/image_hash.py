"""Give a linked image its identity: `python image_hash.py firmware.elf`.

The identity is the SHA-256 of every loadable byte (PT_LOAD contents in the order of their physical addresses) with
the 8-byte field `hil_image_hash` taken as zeros; its first 8 bytes are written into that field. A board that reports
them runs exactly these bytes. Running it again changes nothing.
"""

import hashlib
import sys

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

SYMBOL = "hil_image_hash"
FIELD_BYTES = 8


class NoIdentity(Exception):
    """The ELF cannot carry an identity: no symbol, wrong size, or not in the image."""


def _field_offset(elf):
    """File offset of the field."""
    table = elf.get_section_by_name(".symtab")
    symbols = (table.get_symbol_by_name(SYMBOL) if table else None) or []
    if len(symbols) != 1:
        raise NoIdentity(f'{len(symbols)} symbols named {SYMBOL}, need one (extern "C" const volatile uint8_t [8])')
    address, size = symbols[0]["st_value"], symbols[0]["st_size"]
    if size != FIELD_BYTES:
        raise NoIdentity(f"{SYMBOL} has {size} bytes, need {FIELD_BYTES}")
    for segment in elf.iter_segments("PT_LOAD"):
        start = segment["p_vaddr"]
        if start <= address and address + size <= start + segment["p_filesz"]:
            return segment["p_offset"] + address - start
    raise NoIdentity(f"{SYMBOL} at {address:#x} is not in the loaded image (is it in .bss? give it an initial value)")


def image_digest(path):
    """The file offset of the field and the SHA-256 digest of the image whose field is zeroed."""
    with open(path, "rb") as stream:
        elf = ELFFile(stream)
        offset = _field_offset(elf)
        segments = sorted(elf.iter_segments("PT_LOAD"), key=lambda segment: segment["p_paddr"])
        extents = [(segment["p_offset"], segment["p_filesz"]) for segment in segments]
        stream.seek(0)
        content = bytearray(stream.read())
    content[offset : offset + FIELD_BYTES] = bytes(FIELD_BYTES)
    digest = hashlib.sha256()
    for start, size in extents:
        digest.update(content[start : start + size])
    return offset, digest.digest()


def patch(path):
    """Write the identity into the ELF at `path`; returns the 8 bytes."""
    offset, digest = image_digest(path)
    field = digest[:FIELD_BYTES]
    with open(path, "r+b") as stream:
        stream.seek(offset)
        stream.write(field)
    return field


def main(argv):
    if len(argv) != 2:
        print("usage: image_hash.py FILE.elf", file=sys.stderr)
        return 2
    try:
        print(f"image {patch(argv[1]).hex()}")
    except (NoIdentity, ELFError, OSError) as error:
        print(f"error: image_hash: {argv[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
