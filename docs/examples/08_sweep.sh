# Formats side by side on the accelerator; cells that are finished are never computed again.
hil sweep sweep.yaml --md -
