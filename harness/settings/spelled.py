"""How words of boards.yaml and bench files are spelled: a pattern for editors, and in plain words for who mistypes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function


@dataclass(frozen=True, slots=True)
class Spelled:
    """A str that `pattern` (anchored, as JSON Schema has it) matches as a whole, and what that `means`; `upper`: in
    whatever case it is written, it is upper case."""

    pattern: str
    means: str
    upper: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern, "description": self.means}

    def _checked(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(f"{text!r} is wrong; it takes {self.means}")
        return text.upper() if self.upper else text


Name = Annotated[str, Spelled(r"^[a-z][a-z0-9_]*$", "lower-case letters, digits and _, a letter first")]
UsbId = Annotated[
    str, Spelled(r"^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}$", 'VID:PID, four hexadecimal digits each: "2341:0043"', upper=True)
]
Pin = Annotated[str, Spelled(r"^P[A-K]([0-9]|[12][0-9]|3[01])$", "a pin from PA0 to PK31")]
SerialPort = Annotated[
    str, Spelled(r"^(/dev/[A-Za-z0-9_-][A-Za-z0-9._-]*|COM[0-9]+)$", "a port: /dev/ttyACM0, or COM3")
]
UartName = Annotated[str, Spelled(r"^[A-Z][A-Z0-9]*$", "a name in capitals, such as USART0")]
Reset = Annotated[str, Spelled(r"^[a-z_]+( [a-z_]+)*$", "words of openocd's reset_config")]
Word = Annotated[str, Spelled(r"^[A-Za-z0-9][A-Za-z0-9_-]*$", "letters, digits, - and _, no space")]
DottedWord = Annotated[str, Spelled(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", "letters, digits, -, _ and dots, no space")]
Address = Annotated[
    str,
    Spelled(r"^(rfc2217|socket)://[!-.0-9;-~]+:[0-9]+([/?][!-~]*)?$", "rfc2217://HOST:PORT or socket://HOST:PORT"),
]
HostWord = Annotated[str, Spelled(r"^(ws://)?[A-Za-z0-9\[][A-Za-z0-9_.:/\]-]*$", "HOST, HOST:PORT or ws://HOST:PORT")]
Hub = Annotated[str, Spelled(r"^[0-9]+(-[0-9]+(\.[0-9]+)*)?$", "a hub as uhubctl prints it, such as 1-1.4")]
Place = Annotated[
    str, Spelled(r"^[A-Za-z0-9_*][A-Za-z0-9_.*/@-]*$", "a place of labgrid: letters, digits and _ . * / @ -")
]
