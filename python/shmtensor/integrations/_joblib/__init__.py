"""The parts of the integration of joblib. What workers load before they import joblib does not import it."""
