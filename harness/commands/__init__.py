"""One file per command of `hil`; weighty imports happen inside the commands."""
