"""The Model Context Protocol on stdio: an agent sees what a person sees, under the same guards."""
