"""Models that scikit-learn trained, as skl2onnx writes them, converted and run by the tool and compared with scikit-learn.

    ml_models.py NACRE [--only NAME] [--keep FOLDER]      the program of a build

Each is trained on one of scikit-learn's own data sets with a fixed seed, and asked for rows that it was not trained on. scikit-learn
computes in float64, on the same float32 features. A model is right where every class is scikit-learn's and every probability, score or
value is within 1e-6, relative to the largest of its output where that is above 1; `bound` derives another bound for KMeans, for
which float32 cannot keep that. Needs ml_requirements.txt; what it printed is results/ml_models.txt.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import onnxruntime as ort
import skl2onnx
import sklearn
from skl2onnx import to_onnx
from skl2onnx.common import tree_ensemble
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (AdaBoostClassifier, ExtraTreesClassifier, GradientBoostingClassifier, GradientBoostingRegressor,
                              HistGradientBoostingClassifier, HistGradientBoostingRegressor, IsolationForest, RandomForestClassifier,
                              RandomForestRegressor, VotingClassifier)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (Binarizer, KBinsDiscretizer, MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, PolynomialFeatures,
                                   RobustScaler, StandardScaler)
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

warnings.filterwarnings("ignore")
MOST = 1e-6
ROWS = 40  # each model predicts so many


def with_whole_numbers(add_node):
    """skl2onnx 1.20 lists bools and numpy's integers, which protobuf no longer takes for numbers."""

    def added(lists, *arguments, **named):
        add_node(lists, *arguments, **named)
        for key in ("nodes_missing_value_tracks_true", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"):
            lists[key][-1] = int(lists[key][-1])

    return added


tree_ensemble.add_node = with_whole_numbers(tree_ensemble.add_node)


def data(name, missing=0.0, codes=False):
    """Features as float32, and what is to be told of them, shuffled; `missing`: this share of the features is NaN."""
    made = getattr(datasets, f"load_{name}")()
    random = np.random.default_rng(17)
    order = random.permutation(len(made.data))[:500]
    x, y = made.data[order].astype(np.float32), made.target[order]
    if codes:  # categories: in which fifth of its column a feature stands
        x = np.stack([np.searchsorted(np.quantile(c, (0.2, 0.4, 0.6, 0.8)), c) for c in x.T], 1).astype(np.int64)
    if missing:
        x[random.random(x.shape) < missing] = np.nan
    return x, y


def named(x, y):
    return x, np.array(["alpha", "beta", "gamma", "delta"])[y]


def few(x, y):
    return x[:240], y[:240]


def both(x, y):
    return x, np.stack([y, x[:, 0].astype(np.float64) * 3], 1)


def scaled(model):
    return make_pipeline(StandardScaler(), model)


CANCER, IRIS, WINE, DIABETES = "breast_cancer", "iris", "wine", "diabetes"
MODELS = {
    "LogisticRegression": (lambda: LogisticRegression(max_iter=500), data(IRIS)),
    "LogisticRegression, two named classes": (lambda: scaled(LogisticRegression()), named(*data(CANCER))),
    "LinearSVC": (lambda: scaled(LinearSVC()), data(WINE)),
    "RidgeClassifier": (lambda: scaled(RidgeClassifier()), data(WINE)),
    "SGDClassifier": (lambda: scaled(SGDClassifier(loss="log_loss", random_state=0)), data(CANCER)),
    "SVC": (lambda: scaled(SVC()), data(WINE)),
    "SVC, polynomial, two classes": (lambda: scaled(SVC(kernel="poly", coef0=1)), data(CANCER)),
    "NuSVC, sigmoid": (lambda: scaled(NuSVC(kernel="sigmoid", nu=0.3, gamma=0.05)), data(IRIS)),
    "SVR": (lambda: SVR(C=100), data(DIABETES)),
    "OneClassSVM": (lambda: scaled(OneClassSVM(nu=0.2)), data(IRIS)),
    "DecisionTreeClassifier, named classes": (lambda: DecisionTreeClassifier(max_depth=5, random_state=0), named(*data(WINE))),
    "DecisionTreeRegressor, two outputs": (lambda: DecisionTreeRegressor(max_depth=7, random_state=0), both(*data(DIABETES))),
    "RandomForestClassifier": (lambda: RandomForestClassifier(50, max_depth=6, random_state=0), data(WINE)),
    "RandomForestClassifier, two classes": (lambda: RandomForestClassifier(100, random_state=0), data(CANCER)),
    "RandomForestRegressor": (lambda: RandomForestRegressor(40, max_depth=8, random_state=0), data(DIABETES)),
    "ExtraTreesClassifier": (lambda: ExtraTreesClassifier(60, max_depth=7, random_state=0), data(IRIS)),
    "GradientBoostingClassifier": (lambda: GradientBoostingClassifier(random_state=0), data(WINE)),
    "GradientBoostingClassifier, two classes": (lambda: GradientBoostingClassifier(random_state=0), data(CANCER)),
    "GradientBoostingRegressor": (lambda: GradientBoostingRegressor(random_state=0), data(DIABETES)),
    "HistGradientBoostingClassifier, missing values": (lambda: HistGradientBoostingClassifier(max_iter=30), data(CANCER, missing=0.1)),
    "HistGradientBoostingClassifier, three classes": (lambda: HistGradientBoostingClassifier(max_iter=20), data(WINE)),
    "HistGradientBoostingRegressor": (lambda: HistGradientBoostingRegressor(max_iter=40), data(DIABETES, missing=0.05)),
    "AdaBoostClassifier": (lambda: AdaBoostClassifier(n_estimators=20, random_state=0), data(WINE)),
    "IsolationForest": (lambda: IsolationForest(n_estimators=20, random_state=0), data(IRIS)),
    "VotingClassifier": (
        lambda: VotingClassifier([("a", LogisticRegression(max_iter=500)), ("b", GaussianNB())], voting="soft", flatten_transform=False), data(IRIS)),
    "MLPClassifier": (lambda: scaled(MLPClassifier((16, 8), max_iter=300, random_state=0)), data(WINE)),
    "MLPRegressor, tanh": (lambda: scaled(MLPRegressor(hidden_layer_sizes=(12,), activation="tanh", max_iter=300, random_state=0)), data(DIABETES)),
    "GaussianNB": (lambda: GaussianNB(), data(IRIS)),
    "MultinomialNB": (lambda: make_pipeline(MinMaxScaler(clip=True), MultinomialNB()), data(WINE)),
    "BernoulliNB": (lambda: make_pipeline(StandardScaler(), Binarizer(), BernoulliNB()), data(WINE)),
    "KNeighborsClassifier": (lambda: KNeighborsClassifier(5), data(WINE)),
    "KNeighborsRegressor": (lambda: KNeighborsRegressor(4), few(*data(DIABETES))),
    "StandardScaler, PCA, LogisticRegression": (lambda: make_pipeline(StandardScaler(), PCA(5), LogisticRegression()), data(WINE)),
    "MinMaxScaler, Ridge": (lambda: make_pipeline(MinMaxScaler(), Ridge()), data(DIABETES)),
    "Normalizer, Lasso": (lambda: make_pipeline(Normalizer("l2"), Lasso(alpha=0.01)), data(DIABETES)),
    "MaxAbsScaler, RobustScaler, LogisticRegression": (lambda: make_pipeline(MaxAbsScaler(), RobustScaler(), LogisticRegression()), data(CANCER)),
    "PolynomialFeatures, Ridge": (lambda: make_pipeline(PolynomialFeatures(2), Ridge()), data(DIABETES)),
    "KBinsDiscretizer, LogisticRegression": (
        lambda: make_pipeline(KBinsDiscretizer(4, encode="onehot-dense", strategy="kmeans"), LogisticRegression()), data(IRIS)),
    "OneHotEncoder in a ColumnTransformer": (
        lambda: make_pipeline(ColumnTransformer([("code", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [0, 2, 3])]),
                              LogisticRegression()), data(WINE, codes=True)),
    "SimpleImputer, RandomForestClassifier": (
        lambda: make_pipeline(SimpleImputer(strategy="median"), RandomForestClassifier(30, max_depth=5, random_state=0)),
        data(WINE, missing=0.1)),
    "LinearDiscriminantAnalysis": (lambda: LinearDiscriminantAnalysis(), data(IRIS)),
    "KMeans": (lambda: KMeans(4, n_init=3, random_state=0), data(IRIS)),
}


def bound(name, model, x, theirs):
    """Returns how far scores may be apart: MOST, but more for KMeans, where float32 is not as near; u = 2^-24."""
    u = 2**-24
    if name == "KMeans":  # a distance is the root of x^2 - 2 x c + c^2: terms of at most 4 x^2, 4 roundings
        return 4 * u * 4 * (x**2).sum(1).max() / (2 * theirs[1].min()) / max(1, theirs[1].max())
    return MOST


def answers(model, x):
    """Returns scikit-learn's answers, in the order of skl2onnx's outputs."""
    last = model[-1] if hasattr(model, "steps") else model
    x = x.astype(np.float64) if x.dtype == np.float32 else x
    if isinstance(last, KMeans):
        return [model.predict(x), model.transform(x)]
    if isinstance(last, (IsolationForest, OneClassSVM)):
        return [model.predict(x), model.decision_function(x)]
    if not hasattr(model, "classes_"):
        return [model.predict(x)]
    return [model.predict(x), model.predict_proba(x) if hasattr(model, "predict_proba") else model.decision_function(x)]


class Tool:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def call(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def run(self, file, x, outputs):
        """The outputs of an ONNX file, and the labels that the model file lists."""
        target, given, out = file.with_suffix(".nacre"), file.with_suffix(".npy"), file.with_suffix("")
        np.save(given, x)
        self.call("convert", file, "-o", target, "--batch", len(x))
        self.call("run", target, "--input", f"X={given}", "--output", out)
        listed = json.loads(self.call("inspect", target, "--json"))["metadata"].get("labels", "")
        return [np.load(out / f"{name}.npy") for name in outputs], listed.split("\n")[:-1]


def compare(ours, theirs, labels, most):
    """How far the scores are from each other; the text says what is wrong."""
    far = 0.0
    for mine, y in zip(ours, theirs):
        y = np.asarray(y)
        if y.dtype.kind in "USO":
            mine = np.array(labels)[mine]
        if y.dtype.kind != "f":
            if not np.array_equal(mine.reshape(y.shape), y):
                return far, f"{(mine.reshape(y.shape) != y).sum()} of {len(y)} classes differ"
            continue
        if y.ndim == 1 and mine.shape == (len(y), 2):  # for two classes skl2onnx writes the score with either sign
            mine = mine[:, 0]
        if mine.size != y.size:
            return far, f"shape {mine.shape} instead of {y.shape}"
        apart = np.abs(mine.reshape(y.shape).astype(np.float64) - y).max() / max(1, np.abs(y).max())
        far = max(far, apart)
    return far, "" if far <= most else f"{far:.2g} apart, at most {most:.2g}"


def by_onnxruntime(onnx_model, x, theirs, labels):
    """How far onnxruntime is from scikit-learn on the same file, for comparison; None where it has maps or names."""
    given = ort.InferenceSession(onnx_model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})
    far = 0.0
    for mine, y in zip(given, theirs):
        if isinstance(mine, list):
            mine = np.array([list(row.values()) for row in mine])
        if np.ndim(y) == 1 and np.shape(mine) == (len(y), 2):
            mine = mine[:, 0]
        if np.asarray(y).dtype.kind == "f":
            far = max(far, np.abs(mine.reshape(np.shape(y)).astype(np.float64) - y).max() / max(1, np.abs(y).max()))
    return far


def check(tool, name):
    make, (x, y) = MODELS[name]
    model = make().fit(x[ROWS:].astype(np.float64) if x.dtype == np.float32 else x[ROWS:], y[ROWS:])
    x = x[:ROWS]
    given = {"target_opset": {"": 18, "ai.onnx.ml": 3}}
    try:
        exported = to_onnx(model, x[:1], **given)
    except NameError:  # skl2onnx makes no maps for LinearSVC
        exported = to_onnx(model, x[:1], options={LinearSVC: {"raw_scores": True}}, **given)
    file = tool.folder / ("".join(c if c.isalnum() else "_" for c in name) + ".onnx")
    file.write_bytes(exported.SerializeToString())
    theirs = answers(model, x)
    ours, labels = tool.run(file, x, [o.name for o in exported.graph.output])
    most = bound(name, model, x, theirs)
    far, wrong = compare(ours, theirs, labels, most)
    return far, by_onnxruntime(exported, x, theirs, labels), wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("nacre")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    given = parser.parse_args()
    right, wrong, furthest = 0, 0, 0.0
    print(f"{'model':50} {'apart':>9} {'onnxruntime':>12}")
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(given.nacre, given.keep or pathlib.Path(folder))
        for name in MODELS:
            if given.only not in name:
                continue
            try:
                far, other, why = check(tool, name)
            except Exception as refused:
                far, other, why = 0.0, 0.0, str(refused)
            furthest = max(furthest, far)
            right, wrong = right + (not why), wrong + bool(why)
            print(f"{name:50} {far:9.1e} {other:12.1e}" + (f"  WRONG: {why}" if why else ""), flush=True)
    versions = f"scikit-learn {sklearn.__version__}, skl2onnx {skl2onnx.__version__}"
    facts = f"{right} pipelines equal to scikit-learn's predictions ({ROWS} rows each; furthest {furthest:.1e}), {wrong} wrong; {versions}"
    print(f"CLAIM ml_models {'NOT SHOWN' if wrong or right < 20 else 'shown'}: {facts}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
