"""Speed and memory, shown as ratios against a baseline measured in the same run."""
