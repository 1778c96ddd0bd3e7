"""Trains small models on Fisher's iris data and exports them as their users do, by a plain `to_onnx(model, x[:1])`.

The models beside this file were made so with scikit-learn 1.9, skl2onnx 1.20, XGBoost 3.2 and onnxmltools 1.16, none of
which the tests need: pip install scikit-learn skl2onnx xgboost onnxmltools && python make.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVR, OneClassSVM

HERE = Path(__file__).resolve().parent
iris = load_iris()
x, y = iris.data.astype(np.float32), iris.target
names, two, real = iris.target_names[y], (y > 0).astype(int), y.astype(float)
forest = {"n_estimators": 5, "max_depth": 4, "random_state": 0}
boosted = {"n_estimators": 4, "max_depth": 3}
MODELS = {
    "rf_str": (RandomForestClassifier(**forest), names),
    "rf_odd": (RandomForestClassifier(**forest), y * 3 + 2),
    "rf2": (RandomForestClassifier(**forest), two),
    "logreg_str": (make_pipeline(StandardScaler(), LogisticRegression()), names),
    "svc_rbf": (SVC(), y),
    "svc_linear": (SVC(kernel="linear"), y),
    "svc_poly": (SVC(kernel="poly", coef0=1.0), y),
    "svc_sigmoid": (make_pipeline(StandardScaler(), SVC(kernel="sigmoid")), y),
    "refused_svc_ovo": (SVC(decision_function_shape="ovo"), y),
    "svc2": (SVC(), two),
    "svc2_prob": (SVC(probability=True, random_state=0), two),
    "refused_svc_prob": (SVC(probability=True, random_state=0), y),
    "svr": (SVR(), real),
    "nusvr": (NuSVR(kernel="poly"), real),
    "oneclass": (OneClassSVM(), None),
    "knn_w": (KNeighborsClassifier(3, weights="distance"), y),
    "knn_man": (KNeighborsClassifier(3, metric="manhattan"), y),
    "knn_str": (KNeighborsClassifier(3), names),
    "knnr": (KNeighborsRegressor(3), real),
    "kmeans": (KMeans(3, random_state=0, n_init=3), None),
    "gnb_str": (GaussianNB(), names),
    "mnb": (MultinomialNB(), y),
    "bnb": (BernoulliNB(binarize=1.5), y),
    "mlp_str": (MLPClassifier((8,), max_iter=100, random_state=0), names),
    "gb2": (GradientBoostingClassifier(n_estimators=4), two),
    "lda": (LinearDiscriminantAnalysis(), y),
    "pca": (make_pipeline(PCA(2), LogisticRegression()), y),
    "gmm": (GaussianMixture(3), None),
    "xgbc": (xgboost.XGBClassifier(**boosted), y),
    "xgbc2": (xgboost.XGBClassifier(**boosted), two),
    "xgbr": (xgboost.XGBRegressor(**boosted), real),
}
for name, (model, target) in MODELS.items():
    model.fit(x, target)
    if name.startswith("xgb"):
        made = onnxmltools.convert_xgboost(model, initial_types=[("x", FloatTensorType([None, 4]))])
    else:
        made = to_onnx(model, x[:1])
    (HERE / f"{name}.onnx").write_bytes(made.SerializeToString())
np.savez_compressed(HERE / "iris.npz", x=x[::5], y=y[::5])
