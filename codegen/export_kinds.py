"""What `hil export` can write: the one place that lists the kinds, each a row of `PACKAGES` in packages.py."""

ARDUINO, PLATFORMIO, CMAKE = "arduino", "platformio", "cmake"
PICO_SDK, ZEPHYR, ESP_IDF, MICROPYTHON, HEADER = "pico-sdk", "zephyr", "esp-idf", "micropython", "header"
KINDS = (ARDUINO, PLATFORMIO, CMAKE, PICO_SDK, ZEPHYR, ESP_IDF, MICROPYTHON, HEADER)
