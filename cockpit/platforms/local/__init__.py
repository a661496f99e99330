"""Jobs of kind ``local``: processes of this machine (SPEC S-5)."""
