"""Model -> sources -> image: the pipeline, the compilers, and what the image holds."""
