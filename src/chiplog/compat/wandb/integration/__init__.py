"""Callbacks for frameworks, where W&B has them: `wandb.integration.sb3`."""
