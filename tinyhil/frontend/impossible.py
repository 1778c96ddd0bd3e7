"""Operators that no board can have, each with the reason why."""

from __future__ import annotations

SIZE = "how many elements its result has depends on their values; a board's memory is planned before it runs"
STRINGS = "strings are no numbers; prepare them on the host"
SEQUENCES = "a value is one tensor here, no sequence and no optional one; export it unrolled"
RANDOM = "a board has no random numbers that another machine would have, too; draw them on the host"
IMAGES = "a board is sent pixels, no compressed file; decode it on the host"
REASONS: dict[str, str] = {
    **dict.fromkeys(("NonZero", "Unique"), SIZE),
    **dict.fromkeys(
        (
            "LabelEncoder",
            "RegexFullMatch",
            "StringConcat",
            "StringNormalizer",
            "StringSplit",
            "Tokenizer",
        ),
        STRINGS,
    ),
    **dict.fromkeys(
        (
            "ConcatFromSequence",
            "Optional",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SequenceMap",
            "SplitToSequence",
        ),
        SEQUENCES,
    ),
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), RANDOM
    ),
    "ImageDecoder": IMAGES,
}
