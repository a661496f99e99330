"""The demo on a real system: its trainings submitted to Slurm or Ray, or started on an ssh host."""
