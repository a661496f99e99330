"""Jobs of kind ``iris``: jobs ``/user/job`` of an Iris controller, over its HTTP RPC (SPEC S-1)."""
