"""What MinUn, Shiftry and SeeDot say of themselves: theirs, beside which ours are printed."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("fixed", "posit", "pair")  # fixed 8/16, posit 8/16, posits of the best pair of widths
Limits = tuple[int, int, int]  # bytes of RAM that MinUn was run with, by KINDS; the model input apart


@dataclass(frozen=True, slots=True)
class Published:
    """SeeDot's table (PLDI 2019, real boards): per cent in float and in 16 bits, milliseconds."""

    float_percent: float
    int16_percent: float
    uno_ms: float
    mkr1000_ms: float


# LCTES 2023, table 2, as the authors' run scripts have the limits; by family and data set
LIMITS: dict[tuple[str, str], Limits] = {
    ("FastGRNN", "dsa-19"): (740, 493, 493),
    ("FastGRNN", "google-12"): (1141, 941, 720),
    ("FastGRNN", "google-30"): (1000, 951, 951),
    ("FastGRNN", "har-2"): (845, 720, 500),
    ("FastGRNN", "har-6"): (792, 360, 560),
    ("FastGRNN", "usps-10"): (512, 416, 458),
    ("FastGRNN", "mnist-10"): (1280, 768, 960),
    ("ProtoNN", "cifar-2"): (93, 79, 79),
    ("ProtoNN", "cr-2"): (124, 104, 104),
    ("ProtoNN", "cr-62"): (272, 136, 190),
    ("ProtoNN", "curet-61"): (146, 134, 147),
    ("ProtoNN", "letter-26"): (77, 64, 90),
    ("ProtoNN", "mnist-2"): (60, 40, 50),
    ("ProtoNN", "mnist-10"): (61, 41, 52),
    ("ProtoNN", "usps-2"): (60, 40, 56),
    ("ProtoNN", "usps-10"): (891, 891, 810),
    ("ProtoNN", "ward-2"): (63, 54, 42),
    ("Bonsai", "cifar-2"): (80, 40, 40),
    ("Bonsai", "cr-2"): (100, 36, 36),
    ("Bonsai", "cr-62"): (295, 241, 268),
    ("Bonsai", "curet-61"): (576, 268, 268),
    ("Bonsai", "letter-26"): (124, 99, 124),
    ("Bonsai", "mnist-2"): (50, 20, 20),
    ("Bonsai", "mnist-10"): (60, 45, 50),
    ("Bonsai", "usps-2"): (120, 60, 60),
    ("Bonsai", "usps-10"): (84, 43, 48),
    ("Bonsai", "ward-2"): (50, 20, 20),
}
SEEDOT: dict[tuple[str, str], Published] = {
    ("Bonsai", "cifar-2"): Published(75.48, 75.49, 11.8, 2.8),
    ("Bonsai", "cr-2"): Published(73.86, 74.02, 11.9, 2.8),
    ("Bonsai", "curet-61"): Published(45.55, 43.84, 39.7, 6.2),
    ("Bonsai", "letter-26"): Published(64.88, 64.76, 11.2, 1.8),
    ("Bonsai", "mnist-2"): Published(95.98, 95.94, 11.6, 3.0),
    ("Bonsai", "mnist-10"): Published(93.38, 93.36, 16.8, 3.8),
    ("Bonsai", "usps-2"): Published(94.62, 94.62, 11.6, 2.7),
    ("Bonsai", "usps-10"): Published(91.98, 91.68, 9.2, 2.0),
    ("Bonsai", "ward-2"): Published(95.29, 95.13, 14.3, 3.6),
    ("ProtoNN", "cifar-2"): Published(76.45, 75.40, 14.1, 2.6),
    ("ProtoNN", "cr-2"): Published(72.91, 70.79, 28.4, 4.8),
    ("ProtoNN", "cr-62"): Published(32.74, 31.59, 34.7, 5.1),
    ("ProtoNN", "curet-61"): Published(54.53, 50.46, 37.8, 5.6),
    ("ProtoNN", "letter-26"): Published(84.02, 76.72, 35.4, 4.4),
    ("ProtoNN", "mnist-2"): Published(95.21, 94.28, 16.0, 3.3),
    ("ProtoNN", "mnist-10"): Published(92.06, 91.44, 18.5, 3.7),
    ("ProtoNN", "usps-2"): Published(94.27, 94.17, 9.2, 1.5),
    ("ProtoNN", "usps-10"): Published(92.53, 91.98, 14.0, 2.5),
    ("ProtoNN", "ward-2"): Published(94.87, 94.20, 23.2, 4.0),
}
# Of its public code, run here on the peers' weights: variants its search executes, seconds of the processor
SHIFTRY_SEARCH = {
    "peer_protonn_usps2": (83, 56),
    "peer_bonsai_usps2": (136, 78),
    "peer_protonn_usps10": (75, 61),
    "peer_fastgrnn_usps10": (108, 129),
}
# The FastGRNN paper, per cent in float
FASTGRNN_PERCENT = {"google-12": 92.10, "google-30": 90.78, "har-2": 95.59, "dsa-19": 83.73, "mnist-10": 98.20}
ABSENT = {
    "google-12, google-30, curet-61, ward-2": "no data (Speech Commands: 300 recordings only)",
    "MinUn's and SeeDot's own networks and splits": "not public but for two of usps-2; ours are trained for the "
    "same data, classes grouped by our own choice (`benchmarks/papers/minun/networks.py`)",
    "the boards": "emulated, cycles of the Uno exact; the MKR1000 is not there",
    "the paper's text but for its abstract, table 2's limits and appendix B": "not at hand: what is not in quotation "
    "marks is said in our words; figure 3, tables 3 and 13 (latencies) and its compile times are missing",
}
NOT_AT_HAND = frozenset({"google-12", "google-30", "curet-61", "ward-2"})
# A network of ours for each row at hand, of the zoo or of networks.py; those that take long to measure come last
NETWORKS: dict[str, tuple[str, str]] = {
    "protonn_cifar2": ("ProtoNN", "cifar-2"),
    "protonn_cr2": ("ProtoNN", "cr-2"),
    "protonn_cr62": ("ProtoNN", "cr-62"),
    "protonn_letter26": ("ProtoNN", "letter-26"),
    "protonn_letter26_small": ("ProtoNN", "letter-26"),
    "protonn_usps2": ("ProtoNN", "usps-2"),
    "protonn_usps10": ("ProtoNN", "usps-10"),
    "bonsai_cifar2": ("Bonsai", "cifar-2"),
    "bonsai_cr2": ("Bonsai", "cr-2"),
    "bonsai_letter26": ("Bonsai", "letter-26"),
    "bonsai_usps2": ("Bonsai", "usps-2"),
    "bonsai_usps10": ("Bonsai", "usps-10"),
    "bonsai_cr62": ("Bonsai", "cr-62"),
    "protonn_mnist2": ("ProtoNN", "mnist-2"),
    "protonn_mnist10": ("ProtoNN", "mnist-10"),
    "protonn_mnist10_small": ("ProtoNN", "mnist-10"),
    "bonsai_mnist2": ("Bonsai", "mnist-2"),
    "bonsai_mnist10": ("Bonsai", "mnist-10"),
    "fastgrnn_usps10": ("FastGRNN", "usps-10"),
    "fastgrnn_har2": ("FastGRNN", "har-2"),
    "fastgrnn_har": ("FastGRNN", "har-6"),
    "fastgrnn_dsa19": ("FastGRNN", "dsa-19"),
    "fastgrnn_mnist10": ("FastGRNN", "mnist-10"),
}
