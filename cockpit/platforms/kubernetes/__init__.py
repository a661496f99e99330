"""Jobs of kind ``kubernetes``: Job, JobSet, TrainJob, PyTorchJob and RayJob of a cluster."""
