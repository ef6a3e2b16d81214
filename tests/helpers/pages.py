"""What users look for in the pages."""

SEARCHED = (
    *("jupyter", "notebook", "asyncio", "fastapi", "uvicorn", "gunicorn", "torchrun", "slurm"),
    *("pandas", "joblib", "ray", "bfloat16", "state_dict", "SharedList", "redeliver"),
)
