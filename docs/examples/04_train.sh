# Weights trained for 4 bits, which no choice of widths saves.
hil train --model digits_mlp --format fixed4 --epochs 2 --out tuned.onnx
