"""From observed rows and facets to alerts and reports."""
