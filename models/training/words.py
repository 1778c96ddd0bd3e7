"""What the cards of the zoo say about data sets and model families, each said once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DataWords:
    text: str
    licence: str


@dataclass(frozen=True, slots=True)
class Family:
    architecture: str
    training: str


_USPS = (
    "USPS handwritten digits (Le Cun et al., NIPS 1989), 16 x 16 pixels in -1..1, official split: 7291 to train on, "
    '2007 to test, in the rendering of "The Elements of Statistical Learning".'
)

DATA = {
    "usps": DataWords(_USPS, "none stated, research use."),
    "usps2": DataWords(f"{_USPS} Class 1 are the digits 5-9.", "none stated, research use."),
    "letter": DataWords(
        "UCI Letter Recognition (Slate, 1991): 16 integer attributes (0-15) of distorted capital letters; the first "
        "16000 to train on, the last 4000 to test.",
        "CC BY 4.0.",
    ),
    "mnist": DataWords(
        "MNIST handwritten digits (LeCun, Cortes, Burges), 28 x 28 pixels in 0..1, 60000 to train on, 10000 to test.",
        "CC BY-SA 3.0.",
    ),
    "dsa19": DataWords(
        "Daily and Sports Activities (Altun, Barshan, Tuncel, 2010): 19 activities, 5 s at 25 Hz of five boxes with "
        "acceleration, gyroscope and magnetometer. Persons 1-4 to train on (4560 segments), 5-8 to test (4560).",
        "CC BY 4.0.",
    ),
    "fsdd": DataWords(
        "Free Spoken Digit Dataset (Jackson et al.): 3000 recordings, six speakers, 8 kHz; recordings 0-4 of "
        "each speaker and digit are the test part (300), the rest (2700) is to train on: the speakers are the same. "
        "Features: 98 frames of 32 log-mel energies, 10 ms apart.",
        "CC BY-SA 4.0.",
    ),
    "digits": DataWords(
        "The 1797 digits of 8 x 8 pixels that scikit-learn bundles (UCI Optical Recognition of Handwritten Digits, "
        "Alpaydin and Kaynak), pixels in 0..1; 450 to test, stratified. They are part of the package: this model runs "
        "out of the box.",
        "CC BY 4.0 (UCI), BSD-3-Clause (scikit-learn).",
    ),
}

_FIXED = "AdamW, one-cycle rate, a fixed number of epochs: nothing is chosen by looking at the test part."

PROTONN = Family(
    """
    z = x projection + bias
    score = sum over prototypes i of labels_i exp(-gamma^2 |z - prototypes_i|^2)

ProtoNN (Gupta et al., ICML 2017). In the file: MatMul, Add; Sub, Mul, ReduceSum, Mul, Exp on [prototypes, dimensions];
MatMul with the labels. This form is canonical (docs/zoo.md): the compiler may fuse it. The scaling of the inputs is
folded into the projection.
""",
    f"""
Projection, prototypes and labels together, by cross-entropy. {_FIXED} The projection starts from the directions between
the classes, the prototypes from k-means. Where zeros are counted above, the smallest entries of the projection were set
to zero between 20 and 60 % of the training.
""",
)

BONSAI = Family(
    """
    z = x projection + bias
    score = sum over the nodes k of one path of (z score_w_k) * tanh(z score_v_k)
    from node k to 2 k + 1, or to 2 k + 2 where z branch_k < 0

Bonsai (Kumar et al., ICML 2017). In the file: a Loop of `depth` steps whose body gathers the rows of one node by an
index computed at run time, then the leaf. Only depth + 1 nodes are read and computed. This form is canonical
(docs/zoo.md). The scaling of the inputs is folded into the projection.
""",
    f"""
{_FIXED} At first a sample takes all paths with soft weights, sharper and sharper; the last 40 % of the training run
on hard paths. Where zeros are counted above, the smallest entries of the projection were set to zero between 20 and
60 % of the training.
""",
)

FASTGRNN = Family(
    """
    c = x_t W + h U
    g = sigmoid(c + b_g), h~ = tanh(c + b_h)
    h' = g * h + (1 - g) * h~
    logits = h classifier + classifier_bias

FastGRNN (Kusupati et al., NeurIPS 2018) with zeta = 1 and nu = 0: |h| < 1 by construction. An ONNX Scan over the steps:
the input may be streamed. The scaling of the inputs is folded into W and the biases.
""",
    f"""
{_FIXED} Sequences are moved by a few steps, and some get noise. From 30 % of the training on, a share of the batches
runs in simulated 8-bit arithmetic with a straight-through gradient, and large sums are penalised.
""",
)

TRANSFORMER = Family(
    """
    token = W mean(frames of the token) + b, and its place
    x = LayerNorm(token + attention of two heads (token))
    x = LayerNorm(x + W2 relu(W1 x))
    logits = classifier mean(x) + classifier_bias

Frames are averaged and embedded in an ONNX Scan: the input may be streamed, a board need not hold a whole sample. The
scaling of the inputs is folded into W and b.
""",
    f"{_FIXED} Sequences are moved by some frames, tokens get noise. Cross-entropy with label smoothing 0.05.",
)

_NETWORK = f"Cross-entropy with label smoothing 0.05. {_FIXED}"

DIGITS_MLP = Family("Flatten, Gemm 64-32, Relu, Gemm 32-10.", _NETWORK)

DIGITS_CNN = Family(
    "Convolutions 3x3 without padding to 8 and 16 channels, each with Relu; maximum over 2x2; Gemm 64-10.", _NETWORK
)

LENET5 = Family(
    """
LeNet-5 (LeCun et al., Proc. IEEE 1998) as it is built today: Relu instead of tanh, maximum instead of mean, all feature
maps connected. Convolutions 5x5 to 6 (padding 2) and 16 channels, each followed by the maximum over 2x2; Gemm
400-120-84-10.
""",
    f"{_NETWORK} Batches are moved by up to one pixel.",
)
