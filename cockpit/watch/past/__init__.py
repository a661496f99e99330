"""The past of runs: which moments are kept, what happened, how a run was at one of them."""
