"""Model files to graphs; `load.py` has a reader for each of these suffixes."""

SUFFIXES = (".onnx", ".dsl", ".tflite")
WRITTEN = (".onnx", ".dsl")
