"""The parts of the integration of joblib that import neither joblib nor loky."""
