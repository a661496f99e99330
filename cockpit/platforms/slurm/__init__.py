"""Jobs of kind ``slurm``: squeue, sacct, scontrol; on this machine or over ssh (SPEC S-3)."""
