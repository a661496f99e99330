"""Starts commands that outlive the cockpit, and notes beside them how they fare."""
