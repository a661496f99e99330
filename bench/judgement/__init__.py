"""How right the cockpit's judgement is: labelled material, and generated runs with known faults."""
