"""What several integrations use."""
