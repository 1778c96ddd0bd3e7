"""Programs that use an exported library, one for each kind of package: a sketch, and C with a `main` of its own."""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.codegen.exported_library import CALLER, SPDX, Library


@dataclass(frozen=True, slots=True)
class Main:
    """What differs between C programs: the line that says how they are built, includes, the function, its first
    statements, how a number is read (a condition that ends the program), and whether it goes on for ever."""

    built: str
    includes: tuple[str, ...]
    opening: str
    first: str = ""
    read: str = ""
    forever: bool = False


def _given_arena(library: Library) -> tuple[str, str]:
    """The example's own arena, where the library has none, and how it is passed."""
    if library.arena != CALLER:
        return "", ""
    return f"static uint32_t arena[({library.prefix.upper()}_ARENA_BYTES + 3) / 4];\n", "arena, "


def _telling_sketch(library: Library) -> str:
    x, (declared, passed) = library.prefix, _given_arena(library)
    step, finish = f"{x}_step({passed}row)", f"{x}_finish({passed}result)"
    return f"""\
// {SPDX}
// Tells a tale over the serial monitor, letter by letter, without an end.
#include <{x}.h>

const char PROMPT[] = "Once upon a time ";
const float SEED = 1;  // another whole number, another tale
const float TEMPERATURE = {library.temperature};  // per cent: less is duller
{declared}static float result[{x.upper()}_OUTPUTS];

static void hear(float letter) {{
    const float row[{x.upper()}_STEP_INPUTS] = {{letter, SEED, TEMPERATURE}};
    {step};
    {finish};
}}

static const char *said() {{
    return {x}_class_name(static_cast<int>(result[0]));
}}

void setup() {{
    Serial.begin(115200);
    {x}_begin({passed.removesuffix(", ")});
    for (const char *letter = PROMPT; *letter != 0; ++letter) {{
        int number = 0;
        while (number < {x.upper()}_CLASSES - 1 && {x}_class_name(number)[0] != *letter) ++number;
        hear(number);
        Serial.print(*letter);
    }}
    Serial.print(said());
}}

void loop() {{
    hear(-1);  // no letter: the model goes on with its own
    Serial.print(said());
}}
"""


def sketch(library: Library) -> str:
    """An Arduino sketch that feeds the model a sensor, or has it tell a tale."""
    if library.temperature:
        return _telling_sketch(library)
    x, up = library.prefix, library.prefix.upper()
    declared, passed = _given_arena(library)
    head = f"""\
// {SPDX}
// A sensor on the analog pins, the model, and the built-in LED: lit while the class is WANTED.
#include <{x}.h>

const int WANTED = 0;
const unsigned long PERIOD_MS = 20;  // from sample to sample: set it to that of the samples the model learned from
#ifdef NUM_ANALOG_INPUTS
const int ANALOG_PINS = NUM_ANALOG_INPUTS;  // by the board's core: 6 of an Uno, 4 of a Pico
#else
const int ANALOG_PINS = 1;
#endif
{declared}static float result[{up}_OUTPUTS];
static unsigned long due;

// One channel, -1 to 1 here: replace it by that of your sensor, in the unit of the samples the model learned from.
static float read_channel(int channel) {{
    return (analogRead(A0 + channel % ANALOG_PINS) - 512) / 512.0f;
}}

"""
    shown = "            digitalWrite(LED_BUILTIN, found == WANTED ? HIGH : LOW);\n            Serial.println(found);\n"
    if library.loop:
        return head + (
            "void setup() {\n    pinMode(LED_BUILTIN, OUTPUT);\n    Serial.begin(115200);\n"
            f"    {x}_begin({passed.removesuffix(', ')});\n}}\n\n"
            "void loop() {\n    if (millis() - due < PERIOD_MS) return;\n    due += PERIOD_MS;\n"
            f"    float row[{up}_STEP_INPUTS];\n"
            f"    for (int channel = 0; channel < {up}_STEP_INPUTS; ++channel) row[channel] = read_channel(channel);\n"
            + (f"    {x}_step({passed}row);\n" if library.endless else f"    if ({x}_step({passed}row) > 0) return;\n")
            + f"    const int found = {x}_finish({passed}result);\n"
            + shown.replace("            ", "    ")
            + ("}\n" if library.endless else f"    {x}_begin({passed.removesuffix(', ')});\n}}\n")
        )
    return head + (
        f"static float sample[{up}_INPUTS];\n\n"
        "void setup() {\n    pinMode(LED_BUILTIN, OUTPUT);\n    Serial.begin(115200);\n}\n\n"
        "void loop() {\n"
        f"    for (int n = 0; n < {up}_INPUTS; ++n) sample[n] = read_channel(n);\n"
        f"    const int found = {x}_predict({passed}sample, result);\n"
        + shown.replace("            ", "    ")
        + "    while (millis() - due < PERIOD_MS) {\n    }\n    due += PERIOD_MS;\n}\n"
    )


def c_program(library: Library, main: Main) -> str:
    """Text of a C program that reads samples, or has one of zeros, and prints their classes."""
    x, up = library.prefix, library.prefix.upper()
    declared, passed = _given_arena(library)
    includes = "\n".join(f"#include {name}" for name in (*main.includes, f'"{x}.h"'))
    what = f'    printf("%d\\n", {x}_predict({passed}sample, result));\n'
    if main.read:
        each = f"    for (n = 0; n < {up}_INPUTS; ++n) {{\n        if ({main.read}) return 1;\n    }}\n"
        what = each + what
    if main.forever:
        what = "    for (;;) {\n" + "".join(f"    {line}\n" for line in what.splitlines()) + "    }\n"
    counter = "    int n;\n" if main.read else "    /* sample: fill it with what the model is to judge */\n"
    ends = "" if main.forever or main.opening.startswith("void") else "    return 0;\n"
    return (
        f"/* {SPDX} */\n/* {main.built.format(x=x)} */\n{includes}\n\n"
        f"{declared}static float sample[{up}_INPUTS], result[{up}_OUTPUTS];\n\n"
        f"{main.opening} {{\n{counter}{main.first}{what}{ends}}}\n"
    )
