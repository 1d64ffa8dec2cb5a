"""What does each verb do? One room per verb, and `row_level` for what they share."""
