"""What is true of a run: frozen values, no I/O.

Import from the modules (``cockpit.model.facet``, ``cockpit.model.run`` …); this package
re-exports nothing, so that reading one value costs one import.
"""
