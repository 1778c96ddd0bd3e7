# What an accelerator's energy goes into, by published prices.
hil energy --model digits_mlp --format fixed8
