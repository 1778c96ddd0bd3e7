"""What `hil export` can write: the one place that lists the kinds."""

ARDUINO, PLATFORMIO, CMAKE = "arduino", "platformio", "cmake"
KINDS = (ARDUINO, PLATFORMIO, CMAKE)
