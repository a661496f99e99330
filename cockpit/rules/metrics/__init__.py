"""Rules over logged rows: loss, throughput, steps."""
