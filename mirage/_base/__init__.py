"""What everything stands on and nobody imports from outside."""
