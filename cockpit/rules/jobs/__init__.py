"""Rules over the job: how it ended, waits, stands still, repeats, is there twice; its monitor."""
