"""What does each verb do? One file a verb; each reads top to bottom as its algorithm."""
