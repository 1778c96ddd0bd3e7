# A board of a known chip is data; without the real one its emulator takes the same image.
hil run --boards-file nano.yaml --board nano --model digits_mlp --format fixed8 --samples 20 --load direct
