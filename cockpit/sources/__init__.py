"""Sources: one file per system that is read; async; they return facets and never raise."""
