"""Names of spans and tags, as the original writes them, and which tags stand in the name of a slice."""

STEP, MINI_BATCH, MICRO_BATCH, ROLE, GROUP_ID, PAIR_INDEX, NAME = (
    "step",
    "mini_batch_step",
    "micro_batch_step",
    "role",
    "group_id",
    "pair_index",
    "name",
)
DATA_LOADING, ROLLOUT, WEIGHT_SYNC, REFERENCE_INFERENCE, OLD_ACTOR_INFERENCE = (
    "data_loading",
    "rollout",
    "weight_sync",
    "reference_inference",
    "old_actor_inference",
)
ADVANTAGE_COMPUTATION, PEFT_TRAIN, ENVIRONMENT, QUEUE = "advantage_computation", "peft_train", "environment", "queue"
CONCURRENT = (ROLLOUT, ENVIRONMENT)  # what a cluster lets overlap on a device

SHORT = {MINI_BATCH: "mini_batch", MICRO_BATCH: "micro_batch"}
SHOWN = {
    PEFT_TRAIN: (STEP, ROLE, MINI_BATCH, MICRO_BATCH),
    ROLLOUT: (STEP, GROUP_ID, PAIR_INDEX),
    ENVIRONMENT: (STEP, GROUP_ID, PAIR_INDEX),
    REFERENCE_INFERENCE: (STEP, GROUP_ID),
    OLD_ACTOR_INFERENCE: (STEP, GROUP_ID),
    ADVANTAGE_COMPUTATION: (STEP, GROUP_ID),
    QUEUE: (NAME, STEP),
}
