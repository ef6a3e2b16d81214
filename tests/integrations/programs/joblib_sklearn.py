"""Models of scikit-learn are fitted and validated in parallel. Arguments: a backend, "on" or "off"."""

import sys

import numpy as np
from joblib import parallel_config
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, cross_val_score

if __name__ == "__main__":
    backend, on = sys.argv[1:]
    if on == "on":
        import shmtensor as st

        st.install("joblib")
        parallel_config(backend=backend)
    random = np.random.default_rng(0)
    data = random.standard_normal((4000, 50))
    target = (data[:, 0] + random.standard_normal(4000) > 0).astype(int)
    print(cross_val_score(LogisticRegression(), data, target, n_jobs=2).tolist())
    predicted = cross_val_predict(LogisticRegression(), data, target, method="predict_proba", n_jobs=2)
    print(predicted.sum(0).tolist())
    forest = RandomForestClassifier(20, n_jobs=2, random_state=0).fit(data, target)
    print(forest.predict_proba(data).sum(0).tolist())
