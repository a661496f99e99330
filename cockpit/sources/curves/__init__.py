"""Any metric of a run as a curve: from its tracker's own record, bounded, on demand."""
